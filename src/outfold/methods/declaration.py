"""The decorator of estimators: annotated parameters become the constructor, and docstrings are completed.

A parameter that an estimator does not have is refused with what to do: see :mod:`outfold.methods.peer_parameters`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import TypeVar, dataclass_transform, get_args, get_type_hints

from .parameters import marked_fields
from .peer_parameters import explain

Kind = TypeVar("Kind", bound=type)
HEADER = "Parameters\n----------\n"


@dataclass(frozen=True)
class After:
    """The inherited parameter that an own parameter follows in the signature."""

    parameter: str


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def estimator(kind: Kind) -> Kind:
    """Make the constructor from the annotated parameters of a class and its parents, and complete the docstring.

    In the signature, own parameters come before inherited ones; ``After`` marks exceptions. The docstring of a class
    describes its own parameters; entries of the others are taken from its parents.
    """
    dataclass(eq=False, repr=False, kw_only=True)(kind)
    signature = inspect.signature(vars(kind)["__init__"])
    ordered = sorted(_order(kind), key=lambda name: signature.parameters[name].kind)
    parameters = [signature.parameters[name] for name in ("self", *ordered)]
    constructor = _refuse_others(kind, vars(kind)["__init__"], ordered)
    vars(constructor)["__signature__"] = signature.replace(parameters=parameters)
    setattr(kind, "__init__", constructor)  # noqa: B010  # mypy takes an assignment for a method of an instance
    kind.__doc__ = _complete(kind, ordered)
    for name in ordered:  # no defaults on the class: `Storable.__getattr__` answers for values that are not read yet
        if name in kind.__dict__:
            delattr(kind, name)
    marked_fields(kind)  # now, so that reading a model file compiles no annotation
    return kind


def _refuse_others(kind: type, plain: Callable[..., None], names: list[str]) -> Callable[..., None]:
    """Return the constructor, which raises TypeError for a parameter that is none of ``names`` and says what to do."""

    @wraps(plain)
    def constructor(self: object, *values: object, **parameters: object) -> None:
        for name in parameters:
            if name not in names:
                raise TypeError(explain(kind, name, names))
        plain(self, *values, **parameters)

    return constructor


def check_names(estimator: object, names: Iterable[str]) -> None:
    """Raise ValueError, with what to do, for a name that is no parameter; ``extension__epsilon`` is that of a part."""
    own = list(inspect.signature(type(estimator)).parameters)
    for name in names:
        if name.partition("__")[0] not in own:
            raise ValueError(explain(type(estimator), name, own))


def _order(kind: type) -> list[str]:
    """Return the names of the parameters: own ones, then inherited ones; after ``After`` the own ones follow it."""
    hints = get_type_hints(kind, include_extras=True)
    declared = {f.name for f in fields(kind)}
    own = [name for name in inspect.get_annotations(kind) if name in declared]
    parents = [base for base in kind.__mro__[1:] if "__dataclass_fields__" in base.__dict__]
    inherited = inspect.signature(parents[0]).parameters if parents else ()
    order = [name for name in inherited if name in declared.difference(own)]
    at = 0
    for name in own:
        after = [mark.parameter for mark in get_args(hints[name])[1:] if isinstance(mark, After)]
        at = order.index(after[0]) + 1 if after else at
        order.insert(at, name)
        at += 1
    return order


def _complete(kind: type, ordered: list[str]) -> str:
    """Return the docstring with an entry for every parameter, in the order of the signature."""
    text = inspect.cleandoc(kind.__doc__ or "")
    described: dict[str, str] = {}
    for base in reversed(kind.__mro__):  # a class overrides the entries of its parents
        described |= _entries(inspect.cleandoc(base.__dict__.get("__doc__") or ""))
    before, _, after = text.partition(HEADER)
    _, _, rest = after.partition("\n\n")
    more = [name for name in _entries(text) if name not in ordered]  # for subclasses, which place them
    entries = "\n".join(described[name] for name in (*ordered, *more) if name in described)
    return "\n".join([f"{before.rstrip()}\n\n{HEADER}{entries}\n", *([rest] if rest else [])]) if entries else text


def _entries(text: str) -> dict[str, str]:
    """Return the entry of each parameter in a docstring."""
    section = text.partition(HEADER)[2].partition("\n\n")[0]
    return {part.partition(" :")[0]: part.rstrip() for part in re.split(r"\n(?=\S)", section) if " :" in part}
