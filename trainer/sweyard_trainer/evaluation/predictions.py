"""Attempts as predictions that SWE-bench's harness reads: one a task and file, since it keeps one a task.

`predictions/LABEL-SOURCE.jsonl` holds the first attempt at each task; with several, `LABEL-SOURCE.attempt-N.jsonl` the
N-th, and `LABEL-SOURCE.best.jsonl` what the verifier chose. An attempt whose sandbox or engine failed is in none: the
harness counts its task as incomplete. One that could not be graded here is: its work can be graded there.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.trajectory import Trajectory


def prediction_files(
    name: str, model: str, attempts: Sequence[Trajectory], scores: Mapping[str, float]
) -> dict[str, list[str]]:
    """Lines by file name; `name` is LABEL-SOURCE, and `model` what the harness is to call the policy.

    `scores` are the verifier's, by attempt id; equal ones go to the earlier attempt.
    """
    usable = sorted((a for a in attempts if a.outcome is not Outcome.ENV_INFRA), key=lambda a: (a.task_id, _index(a)))
    count = max((_index(attempt) for attempt in attempts), default=0) + 1
    files = {}
    for index in range(count):
        file = f"{name}.attempt-{index + 1}" if index else name
        files[f"{file}.jsonl"] = [_line(model, attempt) for attempt in usable if _index(attempt) == index]
    chosen: dict[str, Trajectory] = {}
    for attempt in usable:
        score = scores.get(attempt.attempt_id)
        best = chosen.get(attempt.task_id)
        if score is not None and (best is None or score > scores[best.attempt_id]):
            chosen[attempt.task_id] = attempt
    return files | ({f"{name}.best.jsonl": [_line(model, a) for a in chosen.values()]} if chosen else {})


def write_predictions(directory: Path, files: Mapping[str, Sequence[str]]) -> None:
    """Each file whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        partial = directory / f"{name}.partial"
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        partial.replace(directory / name)


def _line(model: str, attempt: Trajectory) -> str:
    """Bytes of a patch that are no UTF-8 stay the escapes that they are."""
    fields = {"instance_id": attempt.task_id, "model_name_or_path": model, "model_patch": attempt.patch}
    return json.dumps(fields)


def _index(attempt: Trajectory) -> int:
    return int(attempt.attempt_id.rsplit("/", 1)[1])
