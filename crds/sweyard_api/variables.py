"""Environment variables of the recipes' own scripts, as fields of a spec. Pure: entry points hand the variables in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweyard_api.merge import merge
from sweyard_api.problem import InvalidSpecError, Problem

OUTPUT = "output"
"""Stands for the directory of the run, which is no field."""


def _storage_url(text: str) -> str:
    """Of a directory too; a relative one counts from where the command was started. fsspec takes it letter by letter,
    so that a blank must stay one."""
    return text if "://" in text else f"file://{Path(text).expanduser().absolute()}"


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable."""

    name: str
    path: str
    """Of the field that it sets, or OUTPUT."""
    parse: Callable[[str], Any] = str
    """Raises ValueError."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Fields that go with it."""


_DJANGO = (
    Variable("VLLM_URL", "inference.url", beside={"inference": {"placement": "external"}}),
    Variable("MODEL", "model.name"),
    Variable("NUM_ROLLOUTS", "steps", int),
    Variable("ROLLOUT_BATCH_SIZE", "rollout.groupsPerStep", int),
    Variable("N_SAMPLES", "rollout.groupSize", int),
    Variable("OUTPUT_DIR", OUTPUT),
)
_SWE_PDB = (
    Variable("SWE_PDB_MODEL_PATH", "model.name"),
    Variable("SWE_PDB_CHECKPOINT_BASE", "checkpoint.url", _storage_url),
)
VARIABLES: Mapping[str, tuple[Variable, ...]] = {
    "qwen3-coder-30b-django": _DJANGO,
    **dict.fromkeys(("swepdb-4b", "swepdb-8b", "swepdb-14b", "swepdb-14b-rewrite"), _SWE_PDB),
}
"""By preset."""


@dataclass(frozen=True, slots=True)
class FromVariables:
    """What variables make of a spec."""

    spec: dict[str, Any]
    output: str | None
    told: tuple[str, ...]
    """A line for each variable that was read."""


def with_variables(spec: Mapping[str, Any], environment: Mapping[str, str]) -> FromVariables:
    """`spec` with what the variables of its preset say, which counts more. Empty ones are as unset.

    Raises InvalidSpecError for a variable that cannot be read.
    """
    changed, output, told = dict(spec), None, []
    for variable in VARIABLES.get(str(spec.get("preset")), ()):
        if not (text := environment.get(variable.name)):
            continue
        value = _parsed(variable, text)
        if variable.path == OUTPUT:
            output = text
        else:
            changed = merge(changed, merge(variable.beside, _at(variable.path, value)))
        told.append(f"{variable.name} is set: {variable.path} is {value}")
    return FromVariables(changed, output, tuple(told))


def _parsed(variable: Variable, text: str) -> Any:
    try:
        return variable.parse(text)
    except ValueError as error:
        message = f"is set by the variable {variable.name}, which must be a whole number: mend or unset it"
        raise InvalidSpecError([Problem(variable.path, message, text)]) from error


def _at(path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: _at(rest, value) if rest else value}
