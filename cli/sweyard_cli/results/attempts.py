"""Attempts of a run, as its rollout files hold them."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweyard_cli.results.files import iterate_json_lines, read_line

EVALUATION_PREFIX = "eval-"


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """Where one attempt is found, and what one chooses by."""

    path: Path
    offset: int
    """Bytes."""
    task_id: str
    group_id: str
    outcome: str
    num_messages: int

    @property
    def is_solved(self) -> bool:
        """The verdict of the reward."""
        return self.outcome == "solved"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to read. All text in it was written by a model, or by what the model ran."""

    attempt_id: str
    task_id: str
    outcome: str
    reward: float
    official: bool | None
    messages: tuple[tuple[str, str], ...]
    """(role, content)."""
    patch: str
    grading_log: str
    infra_reason: str
    seconds: Mapping[str, float]
    num_sampled_tokens: int


def index_attempts(path: Path) -> Iterator[AttemptKey]:
    """The attempts of one file, in the order they ended."""
    for offset, row in iterate_json_lines(path):
        yield AttemptKey(
            path=path,
            offset=offset,
            task_id=str(row.get("task_id", "")),
            group_id=str(row.get("group_id", "")),
            outcome=str(row.get("outcome", "")),
            num_messages=len(row.get("transcript") or ()),
        )


def load_attempt(key: AttemptKey) -> Attempt:
    """The attempt at a key."""
    row = read_line(key.path, key.offset)
    return Attempt(
        attempt_id=str(row.get("attempt_id", "")),
        task_id=key.task_id,
        outcome=key.outcome,
        reward=float(row.get("reward", 0.0)),
        official=row.get("official"),
        messages=tuple((str(m.get("role", "")), str(m.get("content", ""))) for m in row.get("transcript") or ()),
        patch=str(row.get("patch", "")),
        grading_log=str(row.get("grading_log", "")),
        infra_reason=str(row.get("infra_reason", "")),
        seconds={str(name): float(value) for name, value in (row.get("timings") or {}).items()},
        num_sampled_tokens=sum(map(_count_sampled, row.get("segments") or ())),
    )


def _count_sampled(segment: Mapping[str, Any]) -> int:
    """The mask travels as base64 of one byte a token."""
    return sum(base64.b64decode(segment["loss_mask"]))


def step_files(directory: Path) -> dict[int, Path]:
    """Rollout files of the training steps, in order."""
    found = {_step_of(path): path for path in directory.glob("step-*.jsonl")}
    return {step: found[step] for step in sorted(step for step in found if step is not None)}


def _step_of(path: Path) -> int | None:
    digits = path.stem.removeprefix("step-")
    return int(digits) if digits.isdecimal() else None


def evaluation_file(directory: Path, label: str, source: str) -> Path:
    """Rollout file of one source in one evaluation."""
    return directory / f"{EVALUATION_PREFIX}{label}-{source}.jsonl"


def evenly(items: Sequence[int], most: int) -> list[int]:
    """At most so many of `items`, evenly, the first and the last always."""
    if len(items) <= most:
        return list(items)
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]
