"""
Faces by Isomap
===============

Faces by Isomap and its extension, after Bengio et al. (2004), figure 3.

698 renderings of a face differ in light, pan and tilt. A narrow band of light holds 113 of them (the paper takes
lights between 180 and 200; here lights are standardised, so the band is the 113 faces around the median). The first 70
are fitted with 10 neighbours; the other 43 are placed by ``transform``. Two coordinates are the two angles. ::

    OUTFOLD_DATA=folder python examples/isomap_faces.py [picture.png]

The folder holds isomap_faces/isomap_faces_32.npz (X: 698 x 1024, light_pan_tilt_z: 698 x 3).

.. image:: /images/isomap_faces.png
   :alt: Small pictures of faces at their places; those placed by transform are among those fitted.
"""

# sphinx_gallery_thumbnail_path = 'images/isomap_faces.png'

import os
import pathlib
import sys

import numpy as np
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from sklearn.linear_model import LinearRegression

from outfold import Isomap


def load(folder):
    """Images as rows, and light, pan and tilt of each."""
    with np.load(pathlib.Path(folder) / "isomap_faces" / "isomap_faces_32.npz") as file:
        return file["X"], file["light_pan_tilt_z"]


def band_of_light(light, count=113):
    """Rows of the faces around the median light, in the order they come."""
    middle = len(light) // 2
    return np.sort(np.argsort(light)[middle - count // 2 :][:count])


def spread_out(places, least):
    """Some of the places, no two nearer than ``least``, so that pictures do not cover each other."""
    chosen = []
    for i in np.random.default_rng(0).permutation(len(places)):
        if all(np.abs(places[i] - places[j]).max() >= least for j in chosen):
            chosen.append(i)
    return chosen


def main(folder, picture="isomap_faces.png"):
    X, factors = load(folder)
    rows = band_of_light(factors[:, 0])
    old, new = rows[:70], rows[70:]
    faces = Isomap(2, n_neighbors=10).fit(X[old])
    seen, placed = faces.embedding_, faces.transform(X[new], on_far="nearest")
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    axes = figure.subplots()
    axes.scatter(*seen.T, s=18, c="#222222", label=f"{len(old)} fitted")
    axes.scatter(*placed.T, s=26, c="#4477aa", label=f"{len(new)} new, by transform")
    both, images = np.vstack([seen, placed]), X[np.append(old, new)]
    for i in spread_out(both, 0.075 * np.ptp(both)):
        thumbnail = OffsetImage(images[i].reshape(32, 32).T, zoom=1.25, cmap="gray")
        frame = {"facecolor": "#222222" if i < len(old) else "#9db9d6", "linewidth": 0}
        axes.add_artist(AnnotationBbox(thumbnail, both[i], frameon=True, pad=0.18, bboxprops=frame))
    axes.set(
        xlabel="coordinate 1",
        ylabel="coordinate 2",
        title="Faces in one band of light: dark frames are fitted, blue ones new",
    )
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    figure.legend(loc="outside lower center", ncols=2)
    figure.savefig(picture, dpi=110)
    for name, column in (("pan", 1), ("tilt", 2)):
        line = LinearRegression().fit(seen, factors[old, column])
        right = np.corrcoef(line.predict(placed), factors[new, column])[0, 1]
        print(f"{name}: correlation of the new faces with a linear function of the coordinates {right:.3f}")
    print(f"wrote {picture}")


if __name__ == "__main__":
    if "OUTFOLD_DATA" not in os.environ:
        sys.exit("Set OUTFOLD_DATA to the folder that holds isomap_faces/isomap_faces_32.npz.")
    main(os.environ["OUTFOLD_DATA"], *sys.argv[1:2])
