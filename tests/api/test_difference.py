"""What a user is told of two configs that are not the same."""

from typing import Any

import pytest

from sweyard_api.difference import differences

TOLD = {
    "the same": ({"a": {"b": 1}}, {"a": {"b": 1}}, []),
    "a value": ({"steps": 6}, {"steps": 99}, ["steps was 6 and is 99"]),
    "deep": ({"a": {"b": {"c": "x"}}}, {"a": {"b": {"c": "y"}}}, ["a.b.c was 'x' and is 'y'"]),
    "in a list": ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 3}]}, ["a[1].b was 2 and is 3"]),
    "a longer list": ({"a": [1]}, {"a": [1, 2]}, ["a was [1] and is [1, 2]"]),
    "new": ({}, {"a": 1}, ["a was not set and is 1"]),
    "gone": ({"a": {"b": 1}}, {}, ["a was {'b': 1} and is not set"]),
    "old fields first": ({"b": 1, "c": 1}, {"a": 1, "c": 2}, ["b was 1 and is not set", "c was 1 and is 2",
                                                            "a was not set and is 1"]),
    "long": ({"a": "x" * 200}, {"a": ""}, [f"a was '{'x' * 59}... and is ''"]),
    "another kind of value": ({"a": {"b": 1}}, {"a": 3}, ["a was {'b': 1} and is 3"]),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "told"), TOLD.values(), ids=TOLD)
def test_fields_are_named_with_both_values(before: Any, after: Any, told: list[str]) -> None:
    assert list(differences(before, after)) == told
