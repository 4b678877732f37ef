"""
New points, and a fit of everything
===================================

600 digits are fitted, 301 others placed by ``transform``. Were the others part of the fit, where would they be? A fit
of all 901, turned onto the first, answers that. Images that are no digits at all get a position too, and a flag.
"""

# %%
# The same coordinates by induction and by a joint fit: six, since the spectrum has a gap after six. Eigenvalues before
# a gap lie close together, and more rows turn their eigenvectors within the space that they span.

import numpy as np
from sklearn.datasets import load_digits

from outfold import DiffusionMaps
from outfold.extensions.alignment import Alignment
from outfold.plotting import embedding, overlay, panels

X, digit = load_digits(n_class=5, return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
X, digit = X[order] / 16, digit[order]
old, new = slice(0, 600), slice(600, None)
maps = DiffusionMaps(6).fit(X[old])
placed = maps.transform(X[new], on_far="nearest")
joint = DiffusionMaps(6).fit(X).embedding_
joint = Alignment.of(joint[old], maps.embedding_)(joint)  # turned onto the first fit, over what both have seen
apart = np.linalg.norm(placed - joint[new], axis=1)
spread = np.sqrt(((maps.embedding_ - maps.embedding_.mean(axis=0)) ** 2).sum(axis=1).mean())
print(f"{len(placed)} new digits: median distance from the joint fit {np.median(apart) / spread:.3f} of the spread")

# %%
# Pixels of digits in random order are no digits. Their support in the data says so.

random = np.random.default_rng(1)
scrambled = random.permuted(X[new][:60], axis=1)
flagged = {name: maps.trust(rows).flag.mean() for name, rows in (("digits", X[new]), ("scrambled", scrambled))}
print(f"flagged as outside the data: {flagged['digits']:.3f} of new digits, {flagged['scrambled']:.3f} of scrambled")

figure, (left, right) = panels(1.15, 1)
embedding(
    maps,
    colors=digit[old],
    new=placed,
    new_colors=digit[new],
    axes=left,
    title="placed by transform; lines lead to the joint fit",
)
for there, here in zip(joint[new, :2], placed[:, :2]):
    left.plot(*zip(there, here), color="#222222", linewidth=0.5, alpha=0.6)
overlay(maps, np.vstack([X[new][:60], scrambled]), axes=right, title="60 digits and 60 scrambled ones")
figure.savefig("new_points.png", dpi=110)
