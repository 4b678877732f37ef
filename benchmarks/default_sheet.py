"""The contact sheet of the battery: the first two coordinates of every table, one row a contender."""

from __future__ import annotations

import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np


def draw(
    pictures: dict[tuple[str, str], np.ndarray], labels: dict, path: pathlib.Path, notes: dict | None = None
) -> None:
    """Write the sheet: ``pictures[set, contender]`` are coordinates (n, 2).

    ``labels[set, contender]`` or ``labels[set]`` are their colours, ``notes[set, contender]`` a word in a corner.
    """
    notes = notes or {}
    names = list(dict.fromkeys(name for name, _ in pictures))
    rows = list(dict.fromkeys(contender for _, contender in pictures))
    figure, axes = plt.subplots(len(names), len(rows), figsize=(1.7 * len(rows), 1.7 * len(names)), squeeze=False)
    for line, name in zip(axes, names):
        for place, contender in zip(line, rows):
            place.set_xticks([])
            place.set_yticks([])
            for side in place.spines.values():
                side.set_visible(False)
            if (found := pictures.get((name, contender))) is not None:
                classes = labels[name, contender] if (name, contender) in labels else labels[name]
                colours = "viridis" if classes.dtype.kind == "f" else "tab10" if classes.max() < 10 else "tab20"
                place.scatter(
                    *found[:, :2].T, c=classes, cmap=colours, s=min(5, 4000 / len(found)), linewidths=0, rasterized=True
                )
                place.text(1, 0, notes.get((name, contender), ""), fontsize=9, ha="right", transform=place.transAxes)
        line[0].set_ylabel(name, fontsize=9)
    for place, contender in zip(axes[0], rows):
        place.set_title(contender, fontsize=10)
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=75)
    plt.close(figure)
