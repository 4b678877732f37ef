"""The base class of extensions, and ``Nystrom``, the method's own extension."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from .._runtime.threads import Threads
from .samples import Samples


class Extension:
    """The specification of an extension; ``str`` shows the parameters that differ from their defaults."""

    def __str__(self) -> str:
        told = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != f.default]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(told)})"

    def fit(self, known: Samples, runner: Threads) -> Any:
        """Fit to the samples and return a model with ``embed(Z, runner)``."""
        raise AssertionError("an extension says how it is fitted")


@dataclass(frozen=True)
class Nystrom(Extension):
    """The method's own row rule: ``row(x) @ basis``, exact on the training points."""

    def fit(self, known: Samples, runner: Threads) -> Any:
        return known.model
