"""What became of a call: an answer, an error in our words, or one that came from elsewhere."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catalogue import quietly
from fuzz.seeds import is_ours


@dataclass(frozen=True)
class Outcome:
    answer: Any = None
    error: Exception | None = None
    ours: bool = True  # whether the error, if there is one, was raised in our words

    def __str__(self) -> str:
        if self.error is None:
            return f"answered {self.answer!r:.200}"
        last = traceback.extract_tb(self.error.__traceback__)[-1]
        return f"{type(self.error).__name__} at {last.filename}:{last.lineno} ({last.line}): {self.error!s:.300}"


def outcome(call: Callable[..., Any], *args, **options) -> Outcome:
    """Call, and judge the error: its kind is one of ours, and it comes from a ``raise`` in our package."""
    try:
        return Outcome(quietly(call, *args, **options))
    except Exception as error:
        return Outcome(error=error, ours=is_ours(error))
