"""In which fields two configs differ, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

from sweyard_api.problem import join_path

SHOWN_CHARACTERS = 60


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Fields in the order of `before`, then new ones: `steps was 6 and is 99`."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from differences(before.get(key), after.get(key), join_path(path, str(key)))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif before != after:
        yield f"{path} was {_shown(before)} and is {_shown(after)}"


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
