"""Which rollout files a run has, in `<storage>/rollouts/`.

A step or an evaluation that is over has `<label>.parquet`. Attempts that have ended before that are in a journal:
`under-way.arrows` for the steps, which may train them in a later step than that in which they began, and
`<label>.arrows` for an evaluation.
"""

from pathlib import Path

ROLLOUTS = "rollouts"
SEALED = ".parquet"
JOURNAL = ".arrows"
"""The usual suffix of Arrow's streaming format."""
UNDER_WAY = "under-way"
EVALUATION_PREFIX = "eval-"
_STEP_PREFIX = "step-"


def step_label(step: int) -> str:
    """Of a training step's files."""
    return f"{_STEP_PREFIX}{step:06d}"


def evaluation_label(evaluation: str, source: str) -> str:
    """Of the files of one source in one evaluation."""
    return f"{EVALUATION_PREFIX}{evaluation}-{source}"


def label_of_attempt(attempt_id: str) -> str:
    """Of the step or evaluation in which it began, which its id begins with; most are in the file of that."""
    first = attempt_id.partition("/")[0]
    return step_label(int(first)) if first.isdecimal() else first


def step_of(label: str) -> int | None:
    """The training step of a label; None for an evaluation's."""
    digits = label.removeprefix(_STEP_PREFIX)
    return int(digits) if label.startswith(_STEP_PREFIX) and digits.isdecimal() else None


def find_files(rollouts: Path) -> dict[str, Path]:
    """By label, in its order: the sealed file, or else the journal. An evaluation that is done again has both for a
    while; the sealed one is whole."""
    found = {path.stem: path for path in rollouts.glob(f"*{JOURNAL}")}
    found |= {path.stem: path for path in rollouts.glob(f"*{SEALED}")}
    return {label: found[label] for label in sorted(found)}
