"""The run that is asked for: a file's, as the command line and the environment change it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweyard_api.constants import RUN_FILE
from sweyard_api.phases import phased
from sweyard_api.problem import InvalidSpecError
from sweyard_api.validate import validate_document
from sweyard_api.variables import with_variables
from sweyard_cli.errors import UserError
from sweyard_cli.run_directory import run_directory

RUNS = Path("runs")


@dataclass(frozen=True, slots=True)
class AskedRun:
    """A valid TrainingRun."""

    document: dict[str, Any]
    file: Path
    """That it was read from."""
    is_changed: bool
    """It is not the file's."""
    output: Path
    """Where it is kept on this machine, unless the command line says."""
    told: tuple[str, ...]
    """What was changed by the environment."""

    @property
    def handed_over(self) -> dict[str, Any] | None:
        """What a trainer must be given; None where it can read `file` itself."""
        return self.document if self.is_changed else None

    def kept(self, output: Path) -> Path:
        """A file that holds it once it is the run of `output`: the one that it was read from, or the trainer's copy."""
        return output / RUN_FILE if self.is_changed else self.file


def ask(document: dict[str, Any], file: Path, phase: str | None, environment: Mapping[str, str]) -> AskedRun:
    """`document` in one phase of its preset, with the variables of the preset. Raises UserError."""
    spec, name = document["spec"], str(document["metadata"]["name"])
    try:
        found = with_variables(spec if phase is None else phased(spec, phase), environment)
    except InvalidSpecError as error:
        raise UserError("\n".join(f"{file}: {problem}" for problem in error.problems)) from error
    name = f"{name}-{phase}" if phase else name
    asked = {**document, "metadata": {**document["metadata"], "name": name}, "spec": found.spec}
    if problems := validate_document(asked):
        changes = f" ({'; '.join(found.told)})" if found.told else ""
        raise UserError("\n".join(f"{file}: {problem}{changes}" for problem in problems))
    output = run_directory(found.output, "OUTPUT_DIR") if found.output else RUNS / name
    return AskedRun(asked, file, asked != document, output, found.told)
