"""Pydantic's JSON Schema as the structural OpenAPI v3 schema that a CustomResourceDefinition takes."""

from collections.abc import Callable, Iterator
from typing import Any

from sweyard_api.base import Model

Schema = dict[str, Any]

_SAME_MEANING = frozenset(
    (
        *("type", "description", "default", "enum", "format", "items", "properties", "required"),
        *("additionalProperties", "anyOf", "pattern", "multipleOf", "minimum", "maximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    )
)
"""Keywords that need no translation."""


def structural_schema(model: type[Model]) -> Schema:
    """The schema of `model`, with defaults and required fields as declared."""
    document = model.model_json_schema()
    return _structural(document, document.get("$defs", {}))


def _structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    schema = _without_null(_without_reference(schema, definitions))
    if "$ref" in schema:
        schema = _without_reference(schema, definitions)
    kept = {key: value for key, value in schema.items() if key in _SAME_MEANING or key.startswith("x-")}
    kept |= _exclusive_bounds(schema)
    if kept.get("additionalProperties") is False:
        del kept["additionalProperties"]
    if kept.get("pattern", "") is None:
        del kept["pattern"]
    if "x-kubernetes-int-or-string" in kept:
        kept.pop("type", None)
    converted = map_children(kept, lambda child: _structural(child, definitions))
    return _tidy(converted)


def _without_reference(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if "$ref" not in schema:
        return schema
    target = definitions[schema["$ref"].rpartition("/")[2]]
    return target | {key: value for key, value in schema.items() if key != "$ref"}


def _without_null(schema: Schema) -> Schema:
    """Optional fields may be left out; null is what the API server prunes."""
    choices: list[Schema] = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) != 1:
        return schema
    return choices[0] | {key: value for key, value in schema.items() if key != "anyOf"}


def _exclusive_bounds(schema: Schema) -> Schema:
    """JSON Schema's numeric exclusive bounds as OpenAPI's pair of a bound and a flag."""
    bounds: Schema = {}
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.capitalize()}"
        if exclusive in schema:
            bounds |= {bound: schema[exclusive], exclusive: True}
    return bounds


def _tidy(schema: Schema) -> Schema:
    """Drop empty defaults, fold long descriptions, and leave out of a default what nested defaults supply."""
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    default = schema.get("default")
    if isinstance(default, dict) and "properties" in schema:
        schema["default"] = {
            key: value
            for key, value in default.items()
            if value not in (None, {}, []) and value != schema["properties"][key].get("default")
        }
    elif default in (None, [], {}):
        schema.pop("default", None)
    return schema


def map_children(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """A copy in which `change` was applied to the schemas directly below: of fields, items and map values."""
    copy = dict(schema)
    if "properties" in schema:
        copy["properties"] = {name: change(child) for name, child in schema["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            copy[keyword] = change(schema[keyword])
    return copy


def tell_defaults(schema: Schema, suffix: str = "") -> Schema:
    """Each field's default also in its description, for `kubectl explain`, followed by `suffix`."""
    schema = map_children(schema, lambda child: tell_defaults(child, suffix))
    default = schema.get("default")
    if isinstance(default, str | int | float):
        shown = str(default).lower() if isinstance(default, bool) else default
        schema["description"] = f"{schema['description']} Default: {shown}{suffix}."
    return schema


def without_defaults(schema: Schema) -> Schema:
    """Nothing filled in by the API server."""
    schema = map_children(schema, without_defaults)
    return {key: value for key, value in schema.items() if key != "default"}


def without_required(schema: Schema) -> Schema:
    """Every field optional, save those of list items and map values, which nobody merges."""
    properties = {name: without_required(child) for name, child in schema.get("properties", {}).items()}
    copy = {key: value for key, value in schema.items() if key != "required"}
    return copy | {"properties": properties} if properties else copy


def required_paths(schema: Schema, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of the required fields that `without_required` makes optional, parents first."""
    for name in schema.get("required", ()):
        yield (*path, name)
    for name, child in schema.get("properties", {}).items():
        yield from required_paths(child, (*path, name))
