"""Reading files that a run is still writing, or stopped writing in the middle of a line."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from sweyard_api.resolve import dump_config, resolve
from sweyard_api.yaml_text import load_document
from sweyard_cli.errors import UserError

CONFIG_FILE = "config.yaml"


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is no such file. Raises UserError for anything but an object."""
    if not path.exists():
        return {}
    value = _parse(path.read_bytes())
    if value is None:
        raise UserError(f"{path} holds no JSON object: it is damaged, or another program's")
    return value


def read_config(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; empty if there is no such file. Raises UserError for anything but a mapping."""
    if not path.exists():
        return {}
    try:
        value = load_document(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError):
        value = None
    if not isinstance(value, dict):
        raise UserError(f"{path} holds no YAML mapping: it is damaged, or another program's")
    return value


def iterate_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Each whole line that is an object; a line cut off by a crash is left out."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and (row := _parse(line)) is not None:
                yield row


def write_config(directory: Path, run: Mapping[str, Any]) -> None:
    """The resolved config of a TrainingRun, where a run without a cluster keeps it."""
    (directory / CONFIG_FILE).write_text(dump_config(resolve(run["spec"])), encoding="utf-8")


def _parse(line: bytes) -> dict[str, Any] | None:
    """A run that goes on after a crash may leave half a line in the middle of a file, too."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
