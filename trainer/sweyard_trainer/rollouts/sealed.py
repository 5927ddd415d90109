"""The Parquet file of a step or an evaluation that is over, written whole: it is there, with all its rows, or not."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from sweyard_trainer.rollouts.codec import encode
from sweyard_trainer.rollouts.files import SEALED
from sweyard_trainer.rollouts.schema import SCHEMA
from sweyard_trainer.rollouts.trigrams import trigram_metadata
from sweyard_trainer.trajectory import Trajectory

ROW_GROUP_BYTES = 16 << 20
"""Before compression. One attempt is found by reading one row group."""
DICTIONARY_COLUMNS = ["task_id", "group_id", "outcome", "segments.list.element.weight_versions.list.element"]
"""Those whose values repeat. Not floats: a dictionary may take numbers for one that have different bits."""
PARTIAL = ".sealing"


def seal(place: Path, attempts: Sequence[Trajectory], batch: Sequence[Sequence[Trajectory]] = ()) -> Path:
    """Write `attempts` to `place` with the suffix of sealed files; a file of an earlier life gives way to it at once.

    `batch` is what is trained on, in this order.
    """
    places = {
        attempt.attempt_id: (group, index)
        for group, members in enumerate(batch)
        for index, attempt in enumerate(members)
    }
    target = place.with_name(f"{place.name}{SEALED}")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(PARTIAL)
    with partial.open("wb") as file:
        write_parquet(file, (_placed(encode(attempt), places.get(attempt.attempt_id)) for attempt in attempts))
        os.fsync(file.fileno())
    partial.replace(target)
    _sync_directory(target.parent)
    return target


def _placed(row: pa.RecordBatch, place: tuple[int, int] | None) -> pa.RecordBatch:
    for name, value in zip(("batch_group", "batch_index"), place or (), strict=False):
        number = SCHEMA.get_field_index(name)
        row = row.set_column(number, SCHEMA.field(number), pa.array([value], pa.int32()))
    return row


def write_parquet(file: IO[bytes], rows: Iterable[pa.RecordBatch]) -> None:
    """A row group is written when it is large enough, so that memory does not grow with the number of rows; each page
    with a checksum, since a bit that has turned would be trained on."""
    options = {"compression": "zstd", "use_dictionary": DICTIONARY_COLUMNS, "write_page_checksum": True}
    with pq.ParquetWriter(file, SCHEMA, **options) as writer:
        for number, group in enumerate(_row_groups(rows)):
            writer.write_table(pa.Table.from_batches(group, SCHEMA))
            writer.add_key_value_metadata(trigram_metadata(number, group))


def _row_groups(rows: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for row in rows:
        held.append(row)
        held_bytes += row.nbytes
        if held_bytes >= ROW_GROUP_BYTES:
            yield held
            held, held_bytes = [], 0
    if held:
        yield held


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
