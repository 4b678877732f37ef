"""Extended against fitted: the data sets and settings of Wang (2019), median of five draws.

The measuring is that of ``outfold reproduce least-squares``; here its table and picture go into the documentation.

    python benchmarks/least_squares.py            prints the table
    python benchmarks/least_squares.py --write    and writes it and the picture into docs/
"""

import sys
import time

import pages

from outfold.papers.least_squares import measure, picture, table
from outfold.papers.record import Effort


def main(into_docs=False):
    start = time.perf_counter()
    found = measure(Effort())
    grid = table(found)
    lines = [grid.columns, ["---"] * len(grid.columns), *grid.rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    print(f"{text}\n\n{time.perf_counter() - start:.0f} s")
    if into_docs:
        pages.write("least-squares.md", "table", text)
        picture(found).figure.savefig(pages.DOCS / "images" / "least-squares.png", dpi=80)


if __name__ == "__main__":
    main("--write" in sys.argv)
