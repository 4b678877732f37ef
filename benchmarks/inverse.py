"""There and back: inverse_transform against a linear map of the same coordinates (what datafold's inverse is).

    python benchmarks/inverse.py            # prints the table
    python benchmarks/inverse.py --write    # and writes it into docs/extensions.md

Errors are root mean squares over those of the mean. "seen": round trip of the training rows; "new": of rows the
fit has not seen, by transform and back.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pages
from sklearn.datasets import load_digits

from outfold import DiffusionMaps
from outfold.datasets import s_curve, swiss_roll


def rows():
    digits = np.random.default_rng(0).permutation(load_digits().data)
    return {
        "Swiss roll, 400": (swiss_roll(400, random_state=0)[0], swiss_roll(400, random_state=1)[0]),
        "S-curve, 400": (s_curve(400, random_state=0)[0], s_curve(400, random_state=1)[0]),
        "digits, 1400": (digits[:1400], digits[1400:]),
    }


def relative(found, true, mean):
    return float(np.sqrt(((found - true) ** 2).sum() / ((true - mean) ** 2).sum()))


def linear(maps, train, new):
    """By least squares from the coordinates of the training rows."""
    seen = np.column_stack([np.ones(len(train)), maps.transform(train)])
    matrix = np.linalg.lstsq(seen, train, rcond=None)[0]
    return seen @ matrix, np.column_stack([np.ones(len(new)), maps.transform(new)]) @ matrix


def table():
    lines = [
        "| data | pairs | t | chosen | linear, seen | ours, seen | linear, new | ours, new | `round_trip_error_` |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (train, new) in rows().items():
        for pairs in (5, 30):
            for t in (0, 3):
                maps = DiffusionMaps(pairs, t=t).fit(train)
                ways = {
                    "linear": linear(maps, train, new),
                    "ours": tuple(maps.inverse_transform(maps.transform(Z)) for Z in (train, new)),
                }
                mean = train.mean(axis=0)
                seen, fresh = (
                    {way: relative(found[i], (train, new)[i], mean) for way, found in ways.items()} for i in (0, 1)
                )
                chosen = str(maps._way_back.extension)
                lines.append(
                    f"| {name} | {pairs} | {t} | {chosen} | {seen['linear']:.3f} | {seen['ours']:.4f} | "
                    f"{fresh['linear']:.3f} | {fresh['ours']:.4f} | {maps.round_trip_error_:.4f} |"
                )
                print(lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into docs/extensions.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = table()
    if options.write:
        pages.write("extensions.md", "inverse", "\n".join(lines))


if __name__ == "__main__":
    main()
