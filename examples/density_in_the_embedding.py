"""
Density in the embedding
========================

Bengio et al. (2004) ask whether eigenfunctions help to model a density, since it should be simpler in the embedding
than in the data. Here points crowd along a ridge on a bent sheet. Isomap lays the sheet flat and keeps lengths, so its
coordinates need no correction for volume: a density there is one on the sheet, and a single Gaussian will do. But a
point *off* the sheet is given a place on it. Density says what is rare on the sheet, ``trust`` what is not on it; a
Gaussian in the data itself says the first as well, and the second not as clearly.
"""

# %%
# Of an even S-curve, rows are kept with the probability of a ridge on the sheet; the last 300 are new to the fit.

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture

from outfold import Isomap
from outfold.datasets import s_curve
from outfold.plotting import panels


def ridge(place):
    """The density on the sheet, up to a factor: a long ridge, and a little everywhere."""
    return 0.03 + np.exp(-0.5 * (((place - (0, 1)) / (2.5, 0.3)) ** 2).sum(axis=1))


X, place = s_curve(6000, random_state=0)
keep = np.random.default_rng(0).uniform(size=len(X)) < ridge(place)
X, place, other, there = X[keep], place[keep], X[~keep], place[~keep]
fitted, ordinary, truth = X[:-300], X[-300:], ridge(place[-300:])
rare = other[ridge(there) < 0.05][:300]  # on the sheet, where there is next to nothing
length = place[-300:, 0]
off = ordinary + 0.6 * np.column_stack(
    [np.sin(length), 0 * length, np.sign(length) * np.cos(length)]
)  # along the normal

# %%
# One Gaussian models the density: in the two coordinates of Isomap, and in the three of the data.

sheet = Isomap(2, n_neighbors=10).fit(fitted)
flat = GaussianMixture(1).fit(sheet.transform(fitted))
space = GaussianMixture(1).fit(fitted)


def in_embedding(rows):
    """The log density at the places of rows, new or not."""
    return flat.score_samples(sheet.transform(rows, on_far="nearest"))


right = [np.corrcoef(found, np.log(truth))[0, 1] for found in (in_embedding(ordinary), space.score_samples(ordinary))]
print(
    f"log density of new rows, correlation with the truth: {right[0]:.2f} in the embedding, {right[1]:.2f} in the data"
)

# %%
# Which of them tells what is new? The area under the curve is 1 if all novel rows are told from ordinary ones.

judges = in_embedding, lambda rows: sheet.trust(rows).support, space.score_samples
novel = np.repeat([0, 1], [len(ordinary), len(rare)])
for kind, rows in (("rare on the sheet", rare), ("off the sheet", off)):
    areas = [roc_auc_score(novel, -judge(np.vstack([ordinary, rows]))) for judge in judges]
    print(f"{kind}: told by density {areas[0]:.2f}, by support {areas[1]:.2f}; by density in the data {areas[2]:.2f}")

figure, (left, middle) = panels(1.2, 1)
seen, groups = sheet.embedding_, {"ordinary": ordinary, "rare": rare, "off the sheet": off}
across, up = np.meshgrid(
    *(np.linspace(low - 0.4, high + 0.4, 90) for low, high in zip(seen.min(axis=0), seen.max(axis=0)))
)
height = flat.score_samples(np.column_stack([across.ravel(), up.ravel()])).reshape(across.shape)
left.contourf(across, up, height, levels=np.linspace(height.max() - 6, height.max(), 12), cmap="Blues", extend="min")
for (name, rows), color in zip(groups.items(), ("#222222", "#ee6677", "#ccbb44")):
    left.scatter(*sheet.transform(rows, on_far="nearest").T, s=7, c=color, label=name)
    middle.scatter(in_embedding(rows), sheet.trust(rows).support, s=9, c=color, alpha=0.7)
left.set(title="log density in the embedding", xlabel="coordinate 1", ylabel="coordinate 2", ylim=up[[0, -1], 0])
middle.set(title="two questions", xlabel="log density: rare?", ylabel="support: on the sheet?")
left.legend(loc="lower left", markerscale=2)
figure.savefig("density_in_the_embedding.png", dpi=90)
