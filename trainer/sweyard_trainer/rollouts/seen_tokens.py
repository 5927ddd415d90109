"""What the trainer saw of the tokens that a step trained: `<rollouts>/trained/<label>.parquet`, a segment a row.

Beside the step's rollout file and not in it, since that is whole before training begins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sweyard_trainer.rollouts.files import SEALED
from sweyard_trainer.rollouts.reading import typed_damage
from sweyard_trainer.rollouts.schema import required
from sweyard_trainer.rollouts.surrogates import escape

TRAINED = "trained"
SEEN_SCHEMA = pa.schema(
    [
        required("attempt_id", pa.string()),
        # The number of the segment within its attempt.
        required("segment", pa.int32()),
        required("logprobs", pa.list_(required("element", pa.float32()))),
        required("entropies", pa.list_(required("element", pa.float32()))),
    ],
    metadata={b"sweyard.trained": b"1"},
)
_ROWS_READ_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class SeenTokens:
    """Of one segment, the tokens whose mask is true, but for one that is the segment's first."""

    attempt_id: str
    segment: int
    logprobs: NDArray[np.float32]
    """[N] by the weights that the step began with, or by those of its first update that had the segment."""
    entropies: NDArray[np.float32]
    """[N] of the distribution that each token is from, in nats."""


def write_seen(rollouts: Path, label: str, seen: Sequence[SeenTokens]) -> None:
    """At once; a file of an earlier life gives way."""
    columns = [
        [escape(tokens.attempt_id) for tokens in seen],
        [tokens.segment for tokens in seen],
        *([getattr(tokens, name) for tokens in seen] for name in ("logprobs", "entropies")),
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SEEN_SCHEMA, strict=True)]
    path = _path(rollouts, label)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".sealing")
    table = pa.Table.from_arrays(arrays, schema=SEEN_SCHEMA)
    options = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, partial, row_group_size=_ROWS_READ_TOGETHER, **options)
    partial.replace(path)


def drop_seen(rollouts: Path, label: str) -> None:
    """Of a step that is done again, whose attempts may be others."""
    _path(rollouts, label).unlink(missing_ok=True)


def read_seen(rollouts: Path, label: str, attempt_id: str) -> Mapping[int, SeenTokens]:
    """Of one attempt, by segment; empty where nothing was trained, or recorded. Raises RolloutFormatError."""
    path = _path(rollouts, label)
    if not path.exists():
        return {}
    with typed_damage(path):
        rows = pq.read_table(path, filters=[("attempt_id", "=", escape(attempt_id))], page_checksum_verification=True)
        return {
            row["segment"].as_py(): SeenTokens(
                attempt_id, row["segment"].as_py(), *(np.array(row[name].values) for name in ("logprobs", "entropies"))
            )
            for row in rows.to_struct_array().combine_chunks()
        }


def _path(rollouts: Path, label: str) -> Path:
    return rollouts / TRAINED / f"{label}{SEALED}"
