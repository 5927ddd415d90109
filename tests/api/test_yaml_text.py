"""YAML is read as kubectl reads it."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweyard_api.yaml_text import load_document, load_documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("1.0e-06", 1e-6),
        ("-3", -3),
        ("0.5", 0.5),
        ("12:30", "12:30"),
        ("2026-01-01", "2026-01-01"),
        ("yes", True),
        ("1.2.3", "1.2.3"),
        ("4Gi", "4Gi"),
        ("~", None),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    loaded = load_document(f"a: {text}")["a"]
    assert loaded == value
    assert type(loaded) is type(value)


def test_a_key_set_twice_is_refused() -> None:
    with pytest.raises(yaml.YAMLError, match="'steps' is set twice"):
        load_document("{steps: 1, steps: 2}")


def test_empty_documents_are_left_out() -> None:
    assert load_documents("---\n---\na: 1\n---\n# nothing\n") == [{"a": 1}]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_numbers_survive_a_round_trip(number: float) -> None:
    assert load_document(yaml.safe_dump({"a": number}))["a"] == number
