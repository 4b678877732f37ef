"""Declared parameters: the constructor, the docstring and the checks come from the annotations."""

import inspect
import re
from typing import Annotated

import pytest

import outfold
from outfold import methods
from outfold._runtime.typing import FLAG, Interval, Options
from outfold.methods import parameters
from outfold.methods.declaration import After, estimator

METHODS = [getattr(methods, name) for name in (*methods.__all__, "Islands")]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_the_docstring_describes_every_parameter_in_the_order_of_the_signature(method):
    section = inspect.getdoc(method).split("Parameters\n----------\n")[1].split("\n\n")[0]
    described = [line.split(" :")[0] for line in section.splitlines() if not line.startswith(" ")]
    signature = inspect.signature(method).parameters
    assert described == list(signature)
    assert [p.kind for p in signature.values()] == [inspect.Parameter.POSITIONAL_OR_KEYWORD] + [
        inspect.Parameter.KEYWORD_ONLY
    ] * (len(signature) - 1)
    assert list(method._get_param_names()) == sorted(signature)
    assert not any(hasattr(method, name) for name in signature)  # defaults are no attributes of the class


@estimator
class Parent:
    """A parent.

    Parameters
    ----------
    first : int
        One.
    last : int
    """

    first: int = 1
    last: int = 3


@estimator
class Child(Parent):
    """A child.

    Parameters
    ----------
    own : float
        Mine.
    between : str
    """

    own: Annotated[float, Interval(0, 1)] = 0.5
    between: Annotated[str, Options("a", "b"), After("first")] = "a"
    sure: Annotated[bool, FLAG] = False
    count: Annotated[int | None, Interval(2)] = None


def test_own_parameters_come_first_and_after_places_them():
    assert list(inspect.signature(Child).parameters) == ["own", "first", "between", "sure", "count", "last"]
    assert Child.__doc__ == (
        "A child.\n\nParameters\n----------\nown : float\n    Mine.\nfirst : int\n    One.\nbetween : str\nlast : int\n"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"own": 2}, "here: own=2 must be >= 0 and <= 1."),
        ({"own": "x"}, "here: own='x' must be a number >= 0 and <= 1."),
        ({"between": "c"}, "here: between='c' is not known. Valid: 'a', 'b'."),
        ({"sure": 1}, "here: sure=1 must be True or False."),
        ({"count": 1}, "here: count=1 must be a whole number >= 2."),
    ],
)
def test_marks_are_checked(changes, message):
    parameters.check(Child(), "here")
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parameters.check(Child(**changes), "here")


def test_a_cluster_method_has_no_number_of_components():
    assert not hasattr(outfold.SpectralClustering(), "n_components")
    with pytest.raises(TypeError, match="n_components"):
        outfold.SpectralClustering(n_components=2)
