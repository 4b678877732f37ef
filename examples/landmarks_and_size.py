"""
How many landmarks are enough
=============================

Landmarks carry the spectral problem in place of all rows. How far are the eigenfunctions they lead to from those of all
rows? Nystrom fits the landmarks and extends; Roseland lets every row diffuse to the landmarks and back. Well-spread
landmarks (centres of k-means) are worth several times as many random rows. Roseland stops improving at an error of its
own: two steps through landmarks are not quite one diffusion of all rows.
"""

# %%
# Truth: the diffusion map of all 2000 rows of an S-curve.

import numpy as np

from outfold import DiffusionMaps, Roseland
from outfold.datasets import s_curve
from outfold.landmarks import KMeans, Random
from outfold.plotting import panels
from outfold.quality import subspace_angles

X, _ = s_curve(2000, random_state=0)
truth = DiffusionMaps(3, epsilon=0.1).fit(X)

# %%
# The same epsilon for all; one step of Roseland is two of diffusion maps, eigenfunctions are the same.

counts = (100, 200, 400, 800)
routes = {
    ("Nystrom", "random rows"): lambda count: DiffusionMaps(3, epsilon=0.1, landmarks=Random(count), random_state=0),
    ("Nystrom", "k-means"): lambda count: DiffusionMaps(3, epsilon=0.1, landmarks=KMeans(count), random_state=0),
    ("Roseland", "random rows"): lambda count: Roseland(3, epsilon=0.1, landmarks=Random(count), random_state=0),
    ("Roseland", "k-means"): lambda count: Roseland(3, epsilon=0.1, landmarks=KMeans(count), random_state=0),
}
figure, (axes,) = panels(1.1)
for (way, choice), method in routes.items():
    errors = [np.sin(subspace_angles(method(count).fit_transform(X), truth.embedding_)[0]) for count in counts]
    print(f"{way:8} {choice:11} " + " ".join(f"{error:.4f}" for error in errors))
    style = {"color": "#4477aa" if way == "Nystrom" else "#ee6677", "linestyle": "-" if choice == "k-means" else "--"}
    axes.loglog(counts, errors, marker="o", label=f"{way}, {choice}", **style)
axes.set(
    xticks=counts, xticklabels=counts, xlabel="landmarks, of 2000 rows", title="Three eigenfunctions of an S-curve"
)
axes.set(ylabel="sine of the largest angle between the spaces")
axes.minorticks_off()
axes.legend(frameon=False)
figure.savefig("landmarks_and_size.png", dpi=110)
