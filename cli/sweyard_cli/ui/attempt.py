"""One attempt to read: turns, what it changed, how it was graded, and the others of its group. Text is bounded."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweyard_cli.report.diff import diff_lines
from sweyard_cli.report.text import cut
from sweyard_cli.rollouts.turns import COLUMNS as TURN_COLUMNS
from sweyard_cli.ui.attempt_index import LABEL, members_of
from sweyard_cli.ui.not_there import NotThereError
from sweyard_cli.ui.run_files import RunFiles
from sweyard_trainer.rollouts.codec import decode_plain
from sweyard_trainer.rollouts.reading import find_attempt, read_row
from sweyard_trainer.rollouts.surrogates import escape

MAX_MESSAGE_CHARACTERS = 100_000
MAX_TRANSCRIPT_CHARACTERS = 3_000_000
"""Of all messages: each open tab holds an answer until it is taken, however slowly."""
MAX_LOG_CHARACTERS = 200_000
_COLUMNS = (*TURN_COLUMNS, "batch_group", "batch_index")
_DECIDING = re.compile(r"(FAILED|ERROR|E  )|\b(failed|error|errors|missing|not run|[A-Z]\w*(Error|Exception))\b")
"""In a grading log: what a test run says of what failed, and what a grader gives as its reasons."""


def read_attempt_view(files: RunFiles, attempt_id: str) -> dict[str, Any]:
    """Raises NotThereError, RolloutFormatError."""
    path = find_attempt(files.index.paths(), attempt_id)
    if path is None:
        raise NotThereError(f"run {files.name} has recorded no attempt {attempt_id}")
    row = read_row(path, attempt_id, _COLUMNS)
    return {**attempt_view(row), "label": path.stem, "group": group_of(files, row["group_id"])}


def attempt_view(row: Mapping[str, Any]) -> dict[str, Any]:
    """Pure: of the columns above."""
    plain = {name: row[name] for name in _COLUMNS if name not in ("transcript", "patch", "grading_log", "timings")}
    return {
        **plain,
        "timings": dict(row["timings"]),
        "messages": list(messages_of(row["transcript"])),
        "diff": list(diff_lines(cut(row["patch"], MAX_LOG_CHARACTERS))) if row["patch"] else [],
        "grading": grading_lines(cut(row["grading_log"], MAX_LOG_CHARACTERS)),
        "infra_reason": cut(row["infra_reason"], MAX_MESSAGE_CHARACTERS),
    }


def messages_of(transcript: Sequence[Mapping[str, str]]) -> Iterator[dict[str, Any]]:
    """What comes before the first reply is the prompt; what the environment says afterwards are observations."""
    turn, limit = 0, message_limit([len(message["content"]) for message in transcript])
    for message in transcript:
        is_reply = message["role"] == "assistant"
        turn += is_reply
        kind = "reply" if is_reply else "observation" if turn else "prompt"
        text = cut(message["content"], limit)
        yield {"kind": kind, "role": message["role"], "turn": turn, "text": text}


def message_limit(lengths: Sequence[int]) -> int:
    """Characters that each message may have, so that all of them together are bounded."""
    if sum(min(length, MAX_MESSAGE_CHARACTERS) for length in lengths) <= MAX_TRANSCRIPT_CHARACTERS:
        return MAX_MESSAGE_CHARACTERS
    return min(MAX_MESSAGE_CHARACTERS, MAX_TRANSCRIPT_CHARACTERS // len(lengths))


def grading_lines(log: str) -> list[tuple[bool, str]]:
    """(it says why, line)."""
    return [(_DECIDING.search(line) is not None, line) for line in log.splitlines()]


def group_of(files: RunFiles, group_id: str) -> list[dict[str, Any]]:
    """The attempts that share its baseline, itself among them, by their numbers: files have them as they ended."""
    names = ("attempt_id", "outcome", "reward", "num_turns", LABEL)
    batches = members_of(files.index.table(), escape(group_id)).select(names).combine_chunks().to_batches()
    rows = [row for batch in batches for row in decode_plain(batch, names)]
    return sorted(rows, key=lambda row: (len(row["attempt_id"]), row["attempt_id"]))  # .../2 before .../10
