"""The functions, classes and tuples that a test runner and its harness are made of, to notice when one is replaced.

What the work puts back before the tests end is not noticed: canaries are there for that.
"""

import sys
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType

PACKAGES = frozenset({"unittest", "pytest", "_pytest", "pluggy", "builtins"})
OWN = f"{__name__.rpartition('.')[0]}."
KINDS = (FunctionType, BuiltinFunctionType, type, classmethod, staticmethod, property, tuple)
"""Tuples are what an `except` may name."""

Parts = dict[str, tuple[object, object]]


def parts_of_runner() -> Parts:
    """Of the modules that are imported by now: dotted name -> the part, and its code."""
    parts: Parts = {}
    for name, module in list(sys.modules.items()):
        if name.split(".", 1)[0] not in PACKAGES and not name.startswith(OWN):
            continue
        for key, value in _parts_in(vars(module)):
            parts[f"{name}.{key}"] = (value, _code(value))
            if isinstance(value, type) and value.__module__ == name != "builtins":
                parts |= {f"{name}.{key}.{each}": (part, _code(part)) for each, part in _parts_in(vars(value))}
    return parts


def replaced_parts(before: Parts) -> list[str]:
    """Names of parts that are gone or others by now, sorted."""
    now = parts_of_runner()
    gone = (None, None)
    return sorted(
        name for name, (part, code) in before.items() if now.get(name, gone)[0] is not part or _code(part) is not code
    )


def _parts_in(names: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    return ((key, value) for key, value in list(names.items()) if isinstance(value, KINDS))


def _code(part: object) -> object:
    """Of a function, or of one that is wrapped for a class."""
    return getattr(getattr(part, "__func__", part), "__code__", None)
