"""What is to be applied by an API server is read by it as YAML."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweyard_api.json_in_yaml import json_in_yaml

CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS, NAMES = st.text(CHARACTERS), st.text(CHARACTERS, max_size=100)
"""A key in YAML has at most 1,024 characters, of which one that is escaped is six."""


@given(st.recursive(TEXTS | st.integers() | st.none() | st.booleans(), lambda some: st.dictionaries(NAMES, some)))
def test_it_says_the_same_in_json_and_in_yaml(value: Any) -> None:
    text = json_in_yaml(value)
    assert json.loads(text) == value
    assert yaml.safe_load(text) == value


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("\U0001f680", '"\U0001f680"'),
        ("a\x7f\x85\u2028\ufeff", '"a\\u007f\\u0085\\u2028\\ufeff"'),
        ("\\ud83d", '"\\\\ud83d"'),
        ("half of one: \ud83d", '"half of one: \\ufffd"'),
    ],
    ids=["bare beyond U+FFFF", "no end of a line", "what only looks like an escape", "a lone surrogate"],
)
def test_no_surrogate_is_written(said: str, written: str) -> None:
    assert json_in_yaml(said) == written
