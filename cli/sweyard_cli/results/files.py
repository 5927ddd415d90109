"""Reading files that a run is still writing, or stopped writing in the middle of a line."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError
from pydantic.alias_generators import to_camel

from sweyard_api.resolve import dump_config, resolve
from sweyard_api.yaml_text import load_document
from sweyard_cli.errors import UserError

CONFIG_FILE = "config.yaml"
_MOST_DIGITS = 300
"""Of a whole number that a float can hold."""


class _Report(BaseModel):
    """What is counted on in a progress.json."""

    model_config = ConfigDict(frozen=True, strict=True, alias_generator=to_camel)

    step: int = 0
    total_steps: int = 0
    weight_version: int | None = None
    progress_percentage: int = 0
    estimated_remaining_seconds: int | None = None
    metrics: dict[str, float | None] = {}
    message: str = ""
    updated_at: str = ""


class _Summary(BaseModel):
    """What is counted on in a summary.json, beside its evaluations."""

    model_config = ConfigDict(frozen=True, strict=True)

    run: str = ""
    mode: str = ""
    steps: int = 0
    seconds: dict[str, FiniteFloat] = {}


def is_there(path: Path) -> bool:
    """Raises UserError for what may have no end, such as a pipe: whatever a run's own code leaves is read."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file: remove it to do without")
    return path.is_file()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is no such file. Raises UserError for anything but an object."""
    if not is_there(path):
        return {}
    value = _parse(path.read_bytes())
    if value is None:
        raise UserError(f"{path} holds no JSON object: it is damaged, or another program's")
    return value


def read_report(path: Path) -> dict[str, Any]:
    """The trainer's progress.json; empty if there is none. Raises UserError for what cannot be one."""
    return _checked(path, _Report, "report")


def read_summary(path: Path) -> dict[str, Any]:
    """A run's summary.json; empty before its end. Raises UserError for what cannot be one."""
    return _checked(path, _Summary, "summary")


def iterate_steps(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of metrics that tell of a step; none if there is no such file."""
    if is_there(path):
        yield from (row for row in iterate_json_lines(path) if _is_step(row.get("step")))


def read_config(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; empty if there is no such file. Raises UserError for anything but a mapping."""
    if not is_there(path):
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


def _checked(path: Path, model: type[BaseModel], name: str) -> dict[str, Any]:
    content = read_json(path)
    try:
        model.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{path} holds no {name} of a run: it is damaged, or another program's") from error
    return content


def _is_step(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _parse(line: bytes) -> dict[str, Any] | None:
    """A run that goes on after a crash may leave half a line in the middle of a file, too."""
    try:
        row = json.loads(line, parse_int=_number)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _number(digits: str) -> int | float:
    """Infinity of more than a float holds: no figure is so large, and every reader knows what is not finite."""
    return int(digits) if len(digits) < _MOST_DIGITS else float(digits)
