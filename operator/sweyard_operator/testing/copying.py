"""Copies of objects as JSON has them: copy.deepcopy, which is ready for anything, takes ten times as long."""

from typing import Any, TypeVar

Value = TypeVar("Value")


def copied(value: Value) -> Value:
    """Dictionaries and lists anew; what cannot change is shared."""
    made: Any = value
    if isinstance(value, dict):
        made = {key: copied(entry) for key, entry in value.items()}
    elif isinstance(value, list):
        made = [copied(entry) for entry in value]
    result: Value = made
    return result
