"""Reading fields of foreign rows, with errors that name row, field and remedy."""

import json
from collections.abc import Mapping
from typing import Any

from sweyard_sandbox.errors import TaskFormatError


def text_field(row: Mapping[str, Any], name: str, label: str) -> str:
    """A field that must be a non-empty string."""
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise TaskFormatError(f"{label}: field {name!r} must be a non-empty text; drop the row or fix the field")
    return value


def tests_field(row: Mapping[str, Any], name: str, label: str) -> tuple[str, ...]:
    """Test ids: a list, or (as older releases have it) the JSON text of one."""
    value = row.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise TaskFormatError(f"{label}: field {name!r} is a text that is no JSON list of test ids") from None
    if not isinstance(value, list | tuple) or not all(isinstance(test, str) for test in value):
        raise TaskFormatError(f"{label}: field {name!r} must be a list of test ids")
    return tuple(value)


def difficulty_tags(value: Any) -> tuple[str, ...]:
    """The tag by which `difficulties` of a task source selects; none for a row that says nothing."""
    return (f"difficulty:{value.strip()}",) if isinstance(value, str) and value.strip() else ()
