"""A Trajectory as a row, and back: floats bit for bit, any text, None apart from empty."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.engine.routing import routing_from_npy, routing_to_npy
from sweyard_trainer.rollouts.schema import SCHEMA
from sweyard_trainer.rollouts.surrogates import escape, unescape
from sweyard_trainer.trajectory import Segment, Trajectory

TOKEN_COLUMNS = {
    "token_ids": np.int32,
    "loss_mask": np.bool_,
    "logprobs": np.float32,
    "weight_versions": np.int32,
}
PLAIN_COLUMNS = ("attempt_id", "task_id", "group_id", "reward", "official", "temperature")
TEXT_COLUMNS = ("patch", "grading_log", "infra_reason")


def encode(trajectory: Trajectory) -> pa.RecordBatch:
    """One row of SCHEMA; its place in a batch is not known yet."""
    row = {
        **{name: _escaped(getattr(trajectory, name)) for name in (*PLAIN_COLUMNS, *TEXT_COLUMNS)},
        "outcome": trajectory.outcome.value,
        "num_turns": sum(message["role"] == "assistant" for message in trajectory.transcript),
        "num_tokens": sum(len(segment.token_ids) for segment in trajectory.segments),
        "num_sampled_tokens": trajectory.num_sampled_tokens,
        "timings": [(escape(name), seconds) for name, seconds in trajectory.timings.items()],
        "transcript": [
            {"role": escape(message["role"]), "content": escape(message["content"])}
            for message in trajectory.transcript
        ],
        "segments": [_encode_segment(segment) for segment in trajectory.segments],
    }
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def decode(batch: pa.RecordBatch) -> list[Trajectory]:
    """Inverse of `encode`, of any number of rows."""
    return [
        Trajectory(
            segments=decode_segments(segments),
            **{**row, "outcome": Outcome(row["outcome"]), "timings": dict(row["timings"])},
        )
        for row, segments in zip(
            decode_plain(batch, [*PLAIN_COLUMNS, *TEXT_COLUMNS, "outcome", "timings", "transcript"]),
            batch.column("segments"),
            strict=True,
        )
    ]


def decode_plain(batch: pa.RecordBatch, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of columns that hold no tokens, as Python values."""
    values = [[_unescaped(value) for value in batch.column(name).to_pylist()] for name in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def decode_segments(segments: pa.ListScalar) -> tuple[Segment, ...]:
    """The token records of one row. The arrays are copies."""
    structs = segments.values
    columns = {name: structs.field(name) for name in (*TOKEN_COLUMNS, "routed_experts")}
    return tuple(_decode_segment({name: column[i] for name, column in columns.items()}) for i in range(len(structs)))


def _encode_segment(segment: Segment) -> dict[str, Any]:
    columns: dict[str, Any] = {name: np.asarray(getattr(segment, name), dtype) for name, dtype in TOKEN_COLUMNS.items()}
    routing = segment.routed_experts
    return {**columns, "routed_experts": None if routing is None else routing_to_npy(routing)}


def _decode_segment(fields: dict[str, Any]) -> Segment:
    routing = fields["routed_experts"].as_py()
    return Segment(
        **{name: _array(fields[name]) for name in TOKEN_COLUMNS},
        routed_experts=None if routing is None else routing_from_npy(routing),
    )


def _array(values: pa.ListScalar) -> NDArray[Any]:
    return np.array(values.values.to_numpy(zero_copy_only=False))


def _escaped(value: Any) -> Any:
    return escape(value) if isinstance(value, str) else value


def _unescaped(value: Any) -> Any:
    """Throughout lists, messages and pairs."""
    match value:
        case str():
            return unescape(value)
        case list():
            return [_unescaped(each) for each in value]
        case tuple():
            return tuple(_unescaped(each) for each in value)
        case dict():
            return {name: _unescaped(each) for name, each in value.items()}
    return value
