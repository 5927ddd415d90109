"""Attempts of a run, as its rollout files hold them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweyard_cli.errors import UserError
from sweyard_trainer.rollouts.codec import decode_plain
from sweyard_trainer.rollouts.files import step_of
from sweyard_trainer.rollouts.reading import RolloutFormatError, iterate_batches, read_row, typed_damage

KEY_COLUMNS = ("attempt_id", "task_id", "group_id", "outcome", "num_turns")
READ_COLUMNS = (
    "reward", "official", "transcript", "patch", "grading_log", "infra_reason", "timings", "num_sampled_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """Where one attempt is found, and what one chooses by."""

    path: Path
    attempt_id: str
    task_id: str
    group_id: str
    outcome: str
    num_turns: int

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
    """The attempts of one file, in the order they ended. Raises UserError for a file that is none of a run's."""
    try:
        for batch in iterate_batches(path, KEY_COLUMNS):
            with typed_damage(path):
                rows = decode_plain(batch, KEY_COLUMNS)
            yield from (AttemptKey(path=path, **row) for row in rows)
    except RolloutFormatError as error:
        raise UserError(str(error)) from error


def load_attempt(key: AttemptKey) -> Attempt:
    """The attempt at a key. Raises UserError where its text is damaged."""
    try:
        row = read_row(key.path, key.attempt_id, READ_COLUMNS)
    except RolloutFormatError as error:
        raise UserError(str(error)) from error
    return Attempt(
        attempt_id=key.attempt_id,
        task_id=key.task_id,
        outcome=key.outcome,
        messages=tuple((message["role"], message["content"]) for message in row.pop("transcript")),
        seconds=dict(row.pop("timings")),
        **row,
    )


def step_files(files: Mapping[str, Path]) -> dict[int, Path]:
    """Rollout files of the training steps, in order."""
    found = {step_of(label): path for label, path in files.items()}
    return {step: found[step] for step in sorted(step for step in found if step is not None)}


def evenly(items: Sequence[int], most: int) -> list[int]:
    """At most so many of `items`, evenly, the first and the last always."""
    if len(items) <= most:
        return list(items)
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]
