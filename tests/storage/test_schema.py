"""The closed list of classes that a model file may hold."""

import pytest

from outfold._runtime import registry
from outfold.storage import schema


def test_every_class_of_a_group_is_on_the_list():
    """A class that a model can hold and that the list does not name would be found here, not by a user."""
    for group in schema.GROUPS.values():
        assert set(group.split()) <= schema.FORMS.keys()


def test_the_registry_and_the_schema_name_the_same_classes():
    assert registry.stored_names() == schema.FORMS.keys() | schema.ESTIMATORS


@pytest.mark.parametrize("name", sorted(registry.stored_names()))
def test_a_stored_name_and_its_class_find_each_other(name):
    kind = registry.stored_class(name)
    assert registry.stored_name(kind) == name
    assert name in registry.names_of(kind.__name__)


def test_a_class_that_is_not_listed_has_no_name():
    assert registry.stored_name(dict) is None
    with pytest.raises(KeyError):
        registry.stored_class("dict")
