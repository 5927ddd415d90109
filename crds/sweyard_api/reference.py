"""Generate the pages on kinds and recipes: `python -m sweyard_api.reference [--check]`, at the repository's root."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sweyard_api.generated import write_or_check
from sweyard_api.kinds import KINDS, Kind
from sweyard_api.markdown import as_text, table
from sweyard_api.recipe_page import recipe_page
from sweyard_api.schema import Schema, structural_schema

_FOLDER = Path("docs/reference")
_HEADER = "<!-- Generated from the models in crds/sweyard_api by `make crds`. Do not edit. -->\n"
_BOUNDS = (("minimum", "from"), ("maximum", "to"))
_COLUMNS = ("field", "type", "default", "what it says")


def kind_page(kind: Kind) -> str:
    """Every field of a kind, as Markdown."""
    spec, status = structural_schema(kind.spec), structural_schema(kind.status)
    flat, nested = _split(spec)
    return "\n".join(
        (
            _HEADER,
            f"# {kind.name}\n",
            f"{as_text(kind.description)} `kubectl explain {kind.singular}.spec` tells the same; short name "
            f"`{kind.short}`. A name has at most {kind.max_name_length} characters.\n",
            *_section("spec", flat),
            *(line for name, child in nested.items() for line in _section(f"spec.{name}", child)),
            *_section("status", status),
            "## Columns of `kubectl get`\n",
            table(
                ("column", "what it says"),
                [
                    (f"{column.name}{' (`-o wide`)' * column.wide}", as_text(column.description))
                    for column in kind.columns
                ],
            ),
        )
    )


def _split(schema: Schema) -> tuple[Schema, dict[str, Schema]]:
    """A schema without its objects, and these by name."""
    nested = {name: child for name, child in schema["properties"].items() if child.get("properties")}
    flat = {name: child for name, child in schema["properties"].items() if name not in nested}
    return schema | {"properties": flat, "description": ""}, nested


def _section(path: str, schema: Schema) -> Iterator[str]:
    yield f"## {path}\n"
    if schema.get("description"):
        yield f"{as_text(schema['description'])}\n"
    yield table(_COLUMNS, _rows(schema))
    if rules := list(_rules(schema)):
        yield "What else must hold:\n"
        yield "".join(f"- {rule}\n" for rule in rules)


def _rows(schema: Schema, path: str = "") -> Iterator[Sequence[str]]:
    for name, child in schema["properties"].items():
        yield f"`{path}{name}`", _type(child), _default(name, schema), as_text(child.get("description", ""))
        for suffix, below in ((".", child), ("[].", child.get("items")), (".NAME.", child.get("additionalProperties"))):
            if isinstance(below, dict) and "properties" in below:
                yield from _rows(below, f"{path}{name}{suffix}")


def _default(name: str, schema: Schema) -> str:
    child = schema["properties"][name]
    if name in schema.get("required", ()):
        return "required"
    default = child.get("default")
    if default is None or "properties" in child:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "x-kubernetes-int-or-string" in schema:
        return "number or text"
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema['items'])}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"map of {_type(schema['additionalProperties'])}"
        case "object":
            return "object"
        case kind:
            bounds = [f"{word} {schema[key]:,}" for key, word in _BOUNDS if key in schema]
            return " ".join([kind or "any", *bounds])


def _rules(schema: Schema, path: str = "") -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        field = f"{path}{rule.get('fieldPath', '').removeprefix('.')}".removesuffix(".")
        yield f"`{field}`: {as_text(rule['message'])}" if field else as_text(rule["message"])
    for name, child in schema["properties"].items():
        if "properties" in child:
            yield from _rules(child, f"{path}{name}.")


def pages() -> dict[Path, str]:
    """What is made here, by its place below the repository's root, where the examples are read."""
    kinds = {_FOLDER / f"{kind.singular}.md": kind_page(kind) for kind in KINDS}
    return kinds | {Path("docs/recipes.md"): f"{_HEADER}\n{recipe_page()}"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or with --check report those that differ."""
    return write_or_check(__doc__, pages(), arguments)


if __name__ == "__main__":
    sys.exit(main())
