"""
What the diffusion time does
============================

Coordinates of diffusion maps are lambda^t psi, and their Euclidean distance is how differently two points have diffused
after t steps. After few steps only neighbours are alike; later all of a cluster is, since its points have mixed while
little has crossed the gap. Fewer and fewer coordinates count.
"""

# %%
# One fit is enough: time changes the weights of the eigenfunctions, not the eigenfunctions.

import numpy as np

from outfold import DiffusionMaps
from outfold.datasets import connected_clusters
from outfold.operators.spectrum import spectral_dimension
from outfold.plotting import embedding, grid, spectrum

X, cluster = connected_clusters((200, 300), random_state=0)
maps = DiffusionMaps(40, epsilon=0.003).fit(X)
psi = maps.embedding_ / maps.eigenvalues_  # t = 0
here = np.argmin(np.linalg.norm(X - [0.9, -0.2], axis=1))
times = (4, 64, 1024)

# %%
# Above: the data, coloured by distance from one point at each time, relative to the largest. Below: the first two
# coordinates, in units of the first, so that what fades can be seen to fade.

figure, axes = grid(2, 4, size=(4.2, 3.8))
for t, (above, below) in zip(times, axes.T):
    places = psi * (maps.eigenvalues_ / maps.eigenvalues_[0]) ** t
    distance = np.linalg.norm(places - places[here], axis=1)
    ratio = distance[cluster == 1].mean() / distance[cluster == 0].mean()
    told = spectral_dimension(maps.eigenvalues_, t=t)
    print(f"t = {t:4d}: {told or 'more than 40'} coordinates count; own cluster at {ratio:.2f} of the other's distance")
    embedding(X, colors=distance / distance.max(), axes=above, title=f"t = {t}: distance from the star")
    above.plot(*X[here], "*", color="#cc3311", markersize=16, markeredgecolor="white")
    embedding(places, colors=cluster.astype(str), axes=below, title=f"t = {t}: coordinates")
    below.set_aspect("auto")
    below.set(
        xlim=1.1 * psi[:, 0][[psi[:, 0].argmin(), psi[:, 0].argmax()]],
        ylim=1.1 * np.array([-1, 1]) * np.abs(psi[:, 1]).max(),
    )
    below.get_legend().remove()
spectrum(maps, t=times, axes=axes[0, 3])
steps = np.geomspace(1, 4096, 60)
axes[1, 3].semilogx(steps, [spectral_dimension(maps.eigenvalues_, t=t) or np.nan for t in steps], color="#4477aa")
axes[1, 3].set(xlabel="t", title="coordinates that count", ylim=0)
figure.savefig("diffusion_time.png", dpi=80)
