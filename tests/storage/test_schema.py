"""The closed list of classes that a model file may hold."""

from typing import Any

import pytest

from outfold._runtime import registry
from outfold.storage import schema


@pytest.mark.parametrize("name", sorted(registry.stored_names() - registry.ESTIMATORS))
def test_the_annotations_of_a_stored_class_say_what_each_part_is(name):
    """A part without a type, or of a type that no file can hold, would refuse every file; it is found here."""
    for part in schema.stored_parts(name):
        kinds = schema.alternatives(part.kind)
        assert kinds, f"{name}.{part.name} has no type"
        assert Any not in kinds, f"{name}.{part.name} may be anything"


@pytest.mark.parametrize("name", sorted(registry.stored_names()))
def test_a_stored_name_and_its_class_find_each_other(name):
    kind = registry.stored_class(name)
    assert registry.stored_name(kind) == name


def test_a_class_that_is_not_listed_has_no_name():
    assert registry.stored_name(dict) is None
    with pytest.raises(KeyError):
        registry.stored_class("dict")
