"""
What alpha does to uneven sampling
==================================

A circle, sampled nine times as densely on one side as on the other. ``alpha`` says how much of that density the
normalisation removes: with 0 the coordinates follow the sampling, with 1 they follow the circle, whose Laplacian has
eigenvalues 1, 1, 4, 4, 9, 9.
"""

# %%
# Angles of density 1 + 0.8 cos, by inverting their distribution function at even steps.

import numpy as np

from outfold import DiffusionMaps
from outfold.plotting import embedding, grid

turn = np.linspace(-np.pi, np.pi, 20_001)
angle = np.interp((np.arange(1500) + 0.5) / 1500, (turn + np.pi + 0.8 * np.sin(turn)) / (2 * np.pi), turn)
X = np.column_stack([np.cos(angle), np.sin(angle)])

# %%
# Rates of decay, 1 - lambda, in the units in which they tend to the eigenvalues of the Laplacian.

figure, axes = grid(2, 2, size=(5, 4))
row = axes.ravel()
truth = np.array([1, 1, 4, 4, 9, 9])
alphas = (0, 0.5, 1)
for axes, alpha in zip(row, alphas):
    maps = DiffusionMaps(6, epsilon=0.005, alpha=alpha, n_neighbors=None).fit(X)
    rates = 2 * (1 - maps.eigenvalues_) / maps.epsilon_
    print(f"alpha = {alpha:3}: 2 (1 - lambda) / epsilon = " + " ".join(f"{rate:.2f}" for rate in rates))
    embedding(maps.embedding_ / maps.eigenvalues_, colors=angle, axes=axes, title=f"alpha = {alpha}")
    axes.set_aspect("equal")
    row[3].plot(range(1, 7), rates, "o-", label=f"alpha = {alpha}", markersize=5 + 2 * (1 - alpha))
row[3].plot(range(1, 7), truth, "k_", markersize=22, label="the circle")
row[3].set(xlabel="number", ylabel="2 (1 - lambda) / epsilon", title="decay rates", xticks=range(1, 7))
row[3].legend(frameon=False)
figure.savefig("sampling_density.png", dpi=90)
