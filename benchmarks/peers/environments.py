"""A virtual environment for each library that is measured, made when it is missing: pins that conflict never meet."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import venv

PACKAGES = {  # library: what its environment holds; Outfold runs in the interpreter that runs this
    "scikit-learn": ["scikit-learn", "pyamg"],
    "datafold": ["datafold"],
    "pydiffmap": ["pydiffmap"],
    "phate": ["phate"],
    "umap-learn": ["umap-learn"],
    "openTSNE": ["openTSNE", "pynndescent"],  # it takes sparse rows by the latter
    "scanpy": ["scanpy", "pynndescent<0.6"],  # with the newest it failed at 16,000 rows
    "snapatac2": ["snapatac2"],
    "pynndescent": ["pynndescent"],
    "faiss-cpu": ["faiss-cpu", "scikit-learn"],
    "hnswlib": ["hnswlib"],
    "usearch": ["usearch"],
}
TABLES = {"palmerpenguins": ["palmerpenguins"]}  # packages that hold data


def folder():
    """Where environments are kept: OUTFOLD_BENCHMARKS, or a folder of the user's cache."""
    return pathlib.Path(os.environ.get("OUTFOLD_BENCHMARKS", pathlib.Path.home() / ".cache" / "outfold-benchmarks"))


def python(library):
    """The interpreter a library is measured in."""
    if library == "outfold":
        return sys.executable
    place = folder() / library
    done = place / "installed"
    if not done.exists():
        print(f"making an environment for {library}", file=sys.stderr, flush=True)
        venv.create(place, with_pip=True, clear=True)
        subprocess.run(
            [place / "bin" / "python", "-m", "pip", "install", "-q", *(PACKAGES | TABLES)[library]], check=True
        )
        done.touch()
    return str(place / "bin" / "python")
