"""Pydantic's errors as sentences that name the field, the value and the remedy."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from typing_extensions import is_typeddict

from sweyard_api.base import (
    DNS_NAME_PATTERN,
    DOTTED_NAME_OR_EMPTY_PATTERN,
    DOTTED_NAME_PATTERN,
    IMAGE_NAME_PATTERN,
    IMAGE_NAME_RULE,
    IMPORT_PATH_PATTERN,
    LABEL_VALUE_PATTERN,
    LINE_PATTERN,
    POSITIVE_QUANTITY_PATTERN,
    QUANTITY_PATTERN,
    REGISTRY_PATTERN,
    REGISTRY_RULE,
    REPOSITORY_PATTERN,
    REPOSITORY_RULE,
    Model,
)
from sweyard_api.problem import Problem
from sweyard_api.sft import CHAT_FILE_PATTERN

_DOTTED_NAME = (
    "must be a Kubernetes name: lower-case letters, digits, hyphens and dots, a letter or digit at either end"
)
_PATTERNS = {
    DNS_NAME_PATTERN: "must be a Kubernetes name: lower-case letters, digits and hyphens, no hyphen at either end",
    DOTTED_NAME_PATTERN: _DOTTED_NAME,
    DOTTED_NAME_OR_EMPTY_PATTERN: _DOTTED_NAME,
    LABEL_VALUE_PATTERN: "must be the value of a label: letters, digits, hyphens, dots and underscores, a letter or "
    "digit at either end",
    LINE_PATTERN: "must be one line, without a space at either end",
    IMAGE_NAME_PATTERN: IMAGE_NAME_RULE,
    REGISTRY_PATTERN: REGISTRY_RULE,
    REPOSITORY_PATTERN: REPOSITORY_RULE,
    IMPORT_PATH_PATTERN: "must name a function as pkg.module:name, for example my_rewards.length:reward",
    QUANTITY_PATTERN: "must be a Kubernetes quantity such as 500m, 4Gi or 2",
    POSITIVE_QUANTITY_PATTERN: "must be a Kubernetes quantity above zero such as 512Mi, 4Gi or 2",
    CHAT_FILE_PATTERN: "must be a file that ends in .jsonl, .jsonl.gz or .parquet",
    r"^https?://": "must begin with http:// or https://",
}
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "too_long": "has {actual_length} entries, at most {max_length} are allowed",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must not be empty",
    "finite_number": "must be a finite number",
}
_KINDS = {
    "int": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
    "string": "must be a string (put it in quotes)",
    "list": "must be a list",
    "dict": "must be a mapping",
    "model": "must be a mapping",
    "typed_dict": "must be a mapping",
}


_LONGER_LISTS = dict.fromkeys(
    ("images", "images.images"), ": name a ConfigMap that lists them in imagesFrom (sweyard cache plan --list)"
)
_EXAMPLES = {
    "model": "; for example model: {name: Qwen/Qwen3-8B}",
}


def problems_of(error: ValidationError, model: type[Model]) -> list[Problem]:
    """One problem for each error that validating `model` gave; unknown fields first, as what is missing is often one
    that was spelt otherwise."""
    errors = sorted(error.errors(include_url=False), key=lambda details: details["type"] != "extra_forbidden")
    problems = [_problem(details, model) for details in errors]
    return list({problem.field: problem for problem in problems}.values())


def _problem(details: Any, model: type[Model]) -> Problem:
    kind, context, location = details["type"], details.get("ctx", {}), details["loc"]
    field = field_path(location)
    value = None if kind == "missing" else details["input"]
    if kind == "extra_forbidden":
        return Problem(field, unknown_field(field, model))
    return Problem(field, _sentence(kind, context, value, field) or details["msg"], value)


def _sentence(kind: str, context: dict[str, Any], value: Any, field: str) -> str | None:
    if kind == "missing":
        return f"is required: set it{'' if '[' in field else ', or a preset that does'}{_EXAMPLES.get(field, '')}"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"must match {context['pattern']}")
    if kind == "literal_error":
        expected = re.findall(r"'([^']*)'", context["expected"]) or [context["expected"]]
        return f"must be one of {', '.join(expected)}{did_you_mean(str(value), expected)}"
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**context) + (_LONGER_LISTS.get(field, "") if kind == "too_long" else "")
    return _KINDS.get(re.sub(r"_(type|parsing|from_float|attributes_type)$", "", kind))


def field_path(location: Sequence[int | str]) -> str:
    """("tasks", "eval", 0, "dataset") as tasks.eval[0].dataset; names of union members are left out."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not re.search(r"[\[\](),]|^(int|str|literal)", part):
            path += f".{part}" if path else part
    return path


def unknown_field(path: str, model: type[Model]) -> str:
    """What to say of a key that the model does not have."""
    parent, _, key = path.rpartition(".")
    known = list(known_fields(model))
    siblings = [name for at, name in known if at == re.sub(r"\[\d+\]", "[]", parent)]
    for guess in (to_camel(key.replace("-", "_")), *get_close_matches(key, siblings, n=1, cutoff=0.75)):
        if guess in siblings:
            return f"there is no such field; did you mean {guess}?"
    elsewhere = [f"{at}.{name}".strip(".") for at, name in known if name == to_camel(key.replace("-", "_"))]
    if elsewhere:
        return f"there is no such field here; did you mean {' or '.join(sorted(elsewhere, key=_depth)[:3])}?"
    close = get_close_matches(key, siblings, n=1, cutoff=0.6)
    return "there is no such field" + (f"; did you mean {close[0]}?" if close else f"; known: {', '.join(siblings)}")


def _depth(path: str) -> tuple[int, str]:
    return path.count("."), path


def did_you_mean(value: str, known: Sequence[str]) -> str:
    """A hint to append, or nothing."""
    close = get_close_matches(value.lower().replace("-", "_"), known, n=1) or get_close_matches(value, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def known_fields(model: type[Any], at: str = "") -> Iterator[tuple[str, str]]:
    """(path of the parent, name) of every field, depth first; list items appear as `[]`."""
    for name, annotation in _fields(model).items():
        yield at, name
        for inner, is_item in _models_in(annotation):
            yield from known_fields(inner, f"{at}.{name}".strip(".") + ("[]" if is_item else ""))


def _fields(model: type[Any]) -> dict[str, Any]:
    if issubclass(model, Model):
        return {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    return dict(model.__annotations__)


def _models_in(annotation: Any, is_item: bool = False) -> Iterator[tuple[type[Any], bool]]:
    if is_typeddict(annotation) or (isinstance(annotation, type) and issubclass(annotation, Model)):
        yield annotation, is_item
    origin_is_list = getattr(annotation, "__origin__", None) is list
    for argument in get_args(annotation):
        yield from _models_in(argument, is_item or origin_is_list)
