"""Lists for machines: JSON, YAML, or names alone."""

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
import yaml


class Format(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


OutputOption = Annotated[Format, typer.Option("--output", "-o", metavar="FORMAT", help="table, json, yaml or name.")]


def print_for_machines(
    wanted: Format, objects: Sequence[Mapping[str, Any]] | Mapping[str, Any], names: Sequence[str] = ()
) -> None:
    """All but a table, of a list or of one object. Of `names` there is one for each, to be given to another command."""
    plain = dict(objects) if isinstance(objects, Mapping) else list(objects)
    match wanted:
        case Format.JSON:
            typer.echo(json.dumps(plain, indent=1))
        case Format.YAML:
            typer.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
        case Format.NAME:
            sys.stdout.writelines(f"{name}\n" for name in names)
        case Format.TABLE:
            raise ValueError("a table is for people")
