"""Import of optional packages, with an error that says how to install them."""

from __future__ import annotations

import importlib
from types import ModuleType


def extra(module: str, name: str) -> ModuleType:
    """Return the imported ``module``. Raise ImportError with the install command of the extra ``name``."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(f'This needs {package}: pip install "outfold[{name}]".') from error
