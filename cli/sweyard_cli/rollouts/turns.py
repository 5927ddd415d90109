"""One attempt to read on a terminal: whole, and with nothing invisible in it, since a model wrote it."""

from collections.abc import Iterator, Mapping
from typing import Any

from sweyard_cli.figures import duration, plural
from sweyard_cli.report.text import visible
from sweyard_trainer.trajectory import Segment, Trajectory

COLUMNS = (
    "attempt_id", "task_id", "group_id", "outcome", "reward", "official", "temperature", "num_turns", "num_tokens",
    "num_sampled_tokens", "timings", "transcript", "patch", "grading_log", "infra_reason",
)  # fmt: skip


def attempt_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """From what was tried to what became of it."""
    yield f"attempt {visible(row['attempt_id'])}"
    yield f"task    {visible(row['task_id'])}"
    yield f"outcome {', '.join(_facts(row))}"
    if row["timings"]:
        yield f"time    {', '.join(f'{visible(name)} {duration(seconds)}' for name, seconds in row['timings'])}"
    turn = 0
    for message in row["transcript"]:
        turn += message["role"] == "assistant"
        yield from _section(f"turn {turn}: model" if message["role"] == "assistant" else visible(message["role"]))
        yield visible(message["content"])
    for title, name in (("patch", "patch"), ("grading", "grading_log"), ("infrastructure", "infra_reason")):
        if row[name]:
            yield from _section(title)
            yield visible(row[name])


def token_lines(attempt: Trajectory) -> Iterator[str]:
    """Each token of each segment: what the learner is given."""
    for number, segment in enumerate(attempt.segments, 1):
        yield from _section(f"segment {number} of {len(attempt.segments)}")
        yield "position     token  sampled       logprob  version"
        yield from _segment_lines(segment)


def _segment_lines(segment: Segment) -> Iterator[str]:
    columns = (segment.token_ids, segment.loss_mask, segment.logprobs, segment.weight_versions)
    for position, (token, sampled, logprob, version) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        told = f"      yes  {logprob:12.6f}  {version:7d}" if sampled else "        -             -        -"
        yield f"{position:8d}  {token:8d}{told}"


def _facts(row: Mapping[str, Any]) -> Iterator[str]:
    yield row["outcome"]
    yield f"reward {row['reward']:g}"
    if row["official"] is not None:
        yield f"the data set's own verdict: {'solved' if row['official'] else 'not solved'}"
    yield plural(row["num_turns"], "turn")
    yield f"{row['num_sampled_tokens']:,} of {plural(row['num_tokens'], 'token')} sampled"
    yield f"temperature {row['temperature']:g}"


def _section(title: str) -> Iterator[str]:
    yield ""
    yield f"--- {title} ---"
