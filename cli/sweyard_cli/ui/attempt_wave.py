"""A wave: all attempts of one step or evaluation side by side, and where their time went."""

from collections import Counter
from typing import Any

import pyarrow as pa

from sweyard_cli.ui.not_there import NotThereError
from sweyard_cli.ui.run_files import RunFiles
from sweyard_trainer.rollouts.codec import decode_plain
from sweyard_trainer.rollouts.reading import read_columns

STAGES = ("claim", "model", "sandbox", "grading")
_COLUMNS = ("attempt_id", "task_id", "group_id", "outcome", "reward", "timings", "infra_reason")


def read_wave(files: RunFiles, label: str | None) -> dict[str, Any]:
    """Of a label, or the newest. Raises NotThereError, RolloutFormatError."""
    paths = files.index.paths()
    if not paths:
        raise NotThereError(f"run {files.name} has recorded no attempts yet")
    wanted = label or _newest(list(paths))
    if wanted not in paths:
        raise NotThereError(files.index.unread().get(wanted) or f"run {files.name} has recorded nothing of {wanted}")
    return {"label": wanted, "labels": list(paths), **wave_of(read_columns(paths[wanted], _COLUMNS))}


def wave_of(table: pa.Table) -> dict[str, Any]:
    """Pure."""
    rows = [row for batch in table.combine_chunks().to_batches() for row in decode_plain(batch, _COLUMNS)]
    seconds = [dict(row["timings"]) for row in rows]
    return {
        "cells": [
            {
                "id": row["attempt_id"],
                "task": row["task_id"],
                "group": row["group_id"],
                "state": row["outcome"],
                "reward": row["reward"],
                "seconds": took.get("total"),
                "reason": first_line(row["infra_reason"]),
            }
            for row, took in zip(rows, seconds, strict=True)
        ],
        "stages": {stage: sum(took.get(stage, 0.0) for took in seconds) for stage in STAGES},
        "failures": Counter(line for row in rows if (line := first_line(row["infra_reason"]))).most_common(),
    }


def first_line(text: str) -> str:
    """What a failure is counted by."""
    return text.partition("\n")[0][:300]


def _newest(labels: list[str]) -> str:
    """What is under way, else the last step, else the last evaluation."""
    steps = [label for label in labels if label.startswith("step-")]
    return "under-way" if "under-way" in labels else (steps or labels)[-1]
