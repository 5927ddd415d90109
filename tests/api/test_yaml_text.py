"""YAML is read as kubectl reads it."""

from itertools import pairwise
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweyard_api.yaml_text import explain, load_document, load_documents


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


REFUSED = {
    "a list for a key": ("? [a]\n: 1", "line 1, column 3: a key must be a word"),
    "a value in itself": ("a: &a\n  b: *a", "contains itself"),
    "a list in itself": ("&a [*a]", "contains itself"),
    "a bomb of aliases": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(f"{y}: &{y} [{f'*{x},' * 10}]\n" for x, y in pairwise("abcdef")),
        "line 5, column 4: it stands for more than 100000 values",
    ),
    "endless nesting of lists": ("[" * 2_000, "nested more than 100 deep"),
    "endless nesting of mappings": ("{a: " * 2_000, "nested more than 100 deep"),
    "a number of 5000 digits": ("a: " + "9" * 5_000, "cannot be read as int"),
    "a number above 64 bits": ("a: 9223372036854775808", "'9223372036854775808' cannot be read as int"),
    "no truth": ("a: !!bool maybe", "'maybe' cannot be read as bool"),
    "no number": ("a: !!float much", "'much' cannot be read as float"),
    "no mapping": ("a: !!map word", "expected a mapping"),
    "bytes": ("a: !!binary aGk=", "the tag !!binary has no meaning here"),
    "a call": ("a: !!python/object/apply:os.getpid []", "the tag !!python/object/apply:os.getpid has no meaning"),
    "a merge of a number": ("<<: 3", "for merging"),
    "a tab": ("a:\n\tb: 1", "line 2, column 1"),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_meaning_or_no_end_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(yaml.YAMLError) as refusal:
        load_documents(text)
    assert says in explain(refusal.value)
    assert "\n" not in explain(refusal.value)


COLONS = {
    "deeper than its neighbour": (
        "spec:\n  steps: 3\n   preset: tiny",
        "line 3, column 10: the indentation does not fit",
    ),
    "below a value": ("spec:\n  model: x\n    name: y", "line 3, column 9: the indentation does not fit"),
    "in a list": ("- a: 1\n   b: 2", "line 2, column 5: the indentation does not fit"),
    "a value of two words with a colon": ("a: b: c", "line 1, column 5: a second colon in one line"),
    "an address with a port": ("a: http://x: 80", "line 1, column 12: a second colon in one line"),
    "below others": ("a: 1\nb: c: d", "line 2, column 5: a second colon in one line"),
}


@pytest.mark.parametrize(("text", "says"), COLONS.values(), ids=COLONS)
def test_a_wrong_indentation_is_not_taken_for_a_second_colon(text: str, says: str) -> None:
    with pytest.raises(yaml.YAMLError) as refusal:
        load_documents(text)
    assert explain(refusal.value).startswith(says)


def test_keys_are_strings_as_in_json() -> None:
    assert load_document("{1: a, true: b, null: c}") == {"1": "a", "true": "b", "null": "c"}


def test_a_merged_mapping_is_laid_under_what_is_written_beside_it() -> None:
    text = "base: &base {cpu: 1, memory: 2Gi}\nouter: {more: &more {<<: *base, cpu: 2}}\nlast: {<<: *more, cpu: 3}"
    loaded = load_document(text)
    assert loaded["outer"]["more"] == {"cpu": 2, "memory": "2Gi"}
    assert loaded["last"] == {"cpu": 3, "memory": "2Gi"}


def test_an_alias_stands_for_its_value() -> None:
    assert load_document("{a: &a [1, 2], b: *a}") == {"a": [1, 2], "b": [1, 2]}


def test_empty_documents_are_left_out() -> None:
    assert load_documents("---\n---\na: 1\n---\n# nothing\n") == [{"a": 1}]


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1))
def test_numbers_survive_a_round_trip(number: float) -> None:
    assert load_document(yaml.safe_dump({"a": number}))["a"] == number
