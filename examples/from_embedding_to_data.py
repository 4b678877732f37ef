"""
From the embedding back to images
=================================

Three digits, turned all the way round, are three closed curves among images of 784 pixels. ``inverse_transform`` leads
from coordinates back to pixels, at places where there is no image: a walk round a curve is a digit that turns.
"""

# %%
# Every twelfth degree is fitted; the angles between are kept to compare with. Angles are even and images have no noise,
# so the kernel is a Gaussian: its coordinates are smooth between images that are far apart.

import numpy as np

from outfold import DiffusionMaps
from outfold.datasets import rotated_digits
from outfold.plotting import embedding, panels

X, digit, angle = rotated_digits(source="digits", rotations=120)
fitted = np.arange(len(X)) % 4 == 0
maps = DiffusionMaps(10, epsilon=10.0).fit(X[fitted])

# %%
# The way back is learnt when it is first asked for. Between fitted images it errs far less than the nearest of them.

between = X[~fitted]
back = maps.inverse_transform(maps.transform(between))
nearest = ((between[:, None] - X[fitted]) ** 2).mean(axis=2).min(axis=1)
print(f"mean squared error: {((back - between) ** 2).mean():.5f}, of the nearest fitted image {nearest.mean():.5f}")

# %%
# Halfway between neighbours on the curve of each digit there is no image. Decoding such places gives one.
# The curves live in ten coordinates: in the first two, a digit and the same upside down all but share a place.

walks = []
for name in range(3):
    curve = maps.embedding_[digit[fitted] == name]
    halfway = (curve + np.roll(curve, -1, axis=0)) / 2
    images = maps.inverse_transform(halfway[:: len(halfway) // 5][:5]).reshape(-1, 28, 28)
    walks.append(np.hstack(list(images)))
figure, (left, right) = panels(1, 1.35)
names = np.array(["first", "second", "third"])[digit[fitted]]
embedding(maps, colors=names, coordinates=(0, 1), axes=left, title="three digits, turned")
right.imshow(np.vstack(walks), cmap="gray_r", vmin=0, vmax=1)
right.set(title="places halfway between images, decoded", xticks=[], yticks=[])
right.spines[:].set_visible(False)
figure.savefig("from_embedding_to_data.png", dpi=90)
