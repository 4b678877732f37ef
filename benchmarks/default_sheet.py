"""The contact sheet of the battery: the first two coordinates of every table, one row a contender."""

from __future__ import annotations

import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np


def draw(pictures: dict[tuple[str, str], np.ndarray], labels: dict[str, np.ndarray], path: pathlib.Path) -> None:
    """Write the sheet: ``pictures[set, contender]`` are coordinates (n, 2), ``labels[set]`` their colours."""
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
                classes = labels[name]
                colours = "viridis" if classes.dtype.kind == "f" else "tab10" if classes.max() < 10 else "tab20"
                place.scatter(
                    *found.T, c=classes, cmap=colours, s=min(4, 2000 / len(found)), linewidths=0, rasterized=True
                )
        line[0].set_ylabel(name, fontsize=7)
    for place, contender in zip(axes[0], rows):
        place.set_title(contender, fontsize=8)
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=75)
    plt.close(figure)
