"""Documents that a JSON schema allows, for property tests."""

from typing import Any

from hypothesis import strategies as st

WORDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)


def documents(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of `schema`; optional fields come and go, lists and maps stay short."""
    if "$ref" in schema:
        return documents(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return _quantities(schema)
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        return st.one_of(*(documents(choice, definitions) for choice in choices))
    return _OF_TYPE[schema["type"]](schema, definitions)


def _quantities(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "pattern" not in schema:
        return st.just("all") | st.integers(0, 10_000)
    numbers = st.integers(schema["minimum"], 1000)
    return numbers | st.builds("{}{}".format, numbers, st.sampled_from(["", "m", "Ki", "Gi"]))


def _numbers(schema: dict[str, Any], _: dict[str, Any]) -> st.SearchStrategy[float]:
    low, high = schema.get("minimum", schema.get("exclusiveMinimum", -1000)), schema.get("maximum", 1000)
    return st.floats(
        low, min(high, schema.get("exclusiveMaximum", high)), allow_nan=False, exclude_min=True, exclude_max=True
    )


def _integers(schema: dict[str, Any], _: dict[str, Any]) -> st.SearchStrategy[int]:
    step = schema.get("multipleOf", 1)
    low, high = schema.get("minimum", -5), schema.get("maximum", 100_000)
    return st.integers(-(-low // step), high // step).map(lambda factor: factor * step)


def _strings(schema: dict[str, Any], _: dict[str, Any]) -> st.SearchStrategy[str]:
    validations = schema.get("x-kubernetes-validations", ())
    if any("a tag or a digest" in rule["message"] for rule in validations):
        return st.builds("{}:{}".format, WORDS, WORDS)
    if any("with a dot or a port" in rule["message"] for rule in validations):
        return WORDS.map("{}.example".format)
    if any("block of addresses" in rule["message"] for rule in validations):
        return st.builds("10.{}.0.0/{}".format, st.integers(0, 255), st.sampled_from([16, 24, 32]))
    if any("host[:port]" in rule["message"] for rule in validations):
        return WORDS.map("{}.example:5000".format)
    pattern = schema.get("pattern", "")
    if pattern.startswith("^https"):
        return WORDS.map("http://{}".format)
    if pattern.endswith("parquet)$"):
        return WORDS.map("{}.parquet".format)
    if "A-Za-z_" in pattern:
        return WORDS.map("V{}".format)
    return WORDS


def _lists(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(documents(schema["items"], definitions), max_size=3, unique_by=repr)


def _objects(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if "properties" not in schema:
        values = schema.get("additionalProperties")
        inner = documents(values, definitions) if isinstance(values, dict) else WORDS
        return st.dictionaries(WORDS, inner, max_size=2)
    fields = {name: documents(field, definitions) for name, field in schema["properties"].items()}
    required = schema.get("required", [])
    return st.fixed_dictionaries(
        {name: fields[name] for name in required},
        optional={name: field for name, field in fields.items() if name not in required},
    )


_OF_TYPE = {
    "object": _objects,
    "array": _lists,
    "string": _strings,
    "integer": _integers,
    "number": _numbers,
    "boolean": lambda _schema, _definitions: st.booleans(),
}
