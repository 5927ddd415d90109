"""Which recorded attempts are asked for. Only the columns that decide it, and those that are shown, are read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sweyard_cli.errors import UserError
from sweyard_trainer.rollouts.codec import decode_plain
from sweyard_trainer.rollouts.files import EVALUATION_PREFIX, ROLLOUTS, find_files, step_label, step_of
from sweyard_trainer.rollouts.reading import read_columns
from sweyard_trainer.rollouts.surrogates import unescape

_CONDITION = re.compile(r"(<=|>=|<|>|=|)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)", re.IGNORECASE)
_COMPARISONS = {
    "": pc.equal,
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number."""

    sign: str
    value: float

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Of `1`, `>0` or `<=0.5`. Raises UserError."""
        found = _CONDITION.fullmatch(text.strip())
        if found is None:
            raise UserError(f"--reward {text}: give a number, or one after <, <=, >, >= or =, such as '>0'")
        return cls(found[1], float(found[2]))


@dataclass(frozen=True, slots=True)
class Selection:
    """What must be true of an attempt; None and an empty tuple leave it open."""

    outcomes: tuple[str, ...] = ()
    reward: Condition | None = None
    task: str | None = None
    """A pattern, as shells have them, of task ids."""
    step: int | None = None
    min_tokens: int | None = None
    """Sampled ones."""
    held_out: bool = True
    """Those at held-out tasks, too."""

    @property
    def columns(self) -> list[str]:
        """Those that it is decided by."""
        asked = {
            "outcome": bool(self.outcomes),
            "reward": self.reward is not None,
            "task_id": self.task is not None,
            "num_sampled_tokens": self.min_tokens is not None,
        }
        return [name for name, is_asked in asked.items() if is_asked]

    def apply(self, table: pa.Table) -> pa.Table:
        """The rows that it is true of."""
        if self.outcomes:
            table = table.filter(pc.is_in(table["outcome"], pa.array(self.outcomes)))
        if self.reward is not None:
            table = table.filter(_COMPARISONS[self.reward.sign](table["reward"], self.reward.value))
        if self.task is not None:
            ids = [task for task in table["task_id"].unique().to_pylist() if fnmatchcase(unescape(task), self.task)]
            table = table.filter(pc.is_in(table["task_id"], pa.array(ids, pa.string())))
        if self.min_tokens is not None:
            table = table.filter(pc.greater_equal(table["num_sampled_tokens"], self.min_tokens))
        return table


def rollout_files(directory: Path) -> dict[str, Path]:
    """Those of a run, by label. Raises UserError where there are none."""
    files = find_files(directory / ROLLOUTS)
    if not files:
        raise UserError(f"{directory} holds no rollouts: give the directory of a run that has begun a step")
    return files


def select(directory: Path, selection: Selection, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """These columns of the attempts that are asked for, file by file. Raises UserError, RolloutFormatError."""
    for path in chosen_files(directory, selection).values():
        table = selection.apply(read_columns(path, list(dict.fromkeys([*columns, *selection.columns]))))
        for batch in table.to_batches():
            yield from decode_plain(batch, columns)


def chosen_files(directory: Path, selection: Selection) -> dict[str, Path]:
    """Those that may hold what is asked for. Raises UserError for a step that there is not."""
    files = rollout_files(directory)
    if not selection.held_out:
        files = {label: path for label, path in files.items() if not label.startswith(EVALUATION_PREFIX)}
    if selection.step is None:
        return files
    label = step_label(selection.step)
    if label not in files:
        raise UserError(f"{directory} holds no step {selection.step}, or it has not ended; {_steps_of(files)}")
    return {label: files[label]}


def _steps_of(files: Mapping[str, Path]) -> str:
    steps = sorted(step for label in files if (step := step_of(label)) is not None)
    return f"it has steps from {steps[0]} to {steps[-1]}" if steps else "it has none yet"
