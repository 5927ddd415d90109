"""Reading journals and sealed files alike, no more of them than is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.rollouts.codec import decode, decode_plain
from sweyard_trainer.rollouts.files import JOURNAL, label_of_attempt
from sweyard_trainer.rollouts.schema import SCHEMA, VERSION, VERSION_KEY
from sweyard_trainer.rollouts.surrogates import escape
from sweyard_trainer.rollouts.trigrams import may_hold, trigrams_of_group
from sweyard_trainer.trajectory import Trajectory

_DAMAGE = (pa.ArrowException, OSError, MemoryError)
"""What Arrow raises of a stream that is not what was written; the last of a length that is not."""


class RolloutFormatError(SweyardError, ValueError):
    """A file that is not of this version of sweyard, or damaged."""


class NoSuchAttemptError(SweyardError, KeyError):
    """No attempt of that id is recorded."""

    def __str__(self) -> str:
        return str(self.args[0])


def read_attempts(path: Path) -> list[Trajectory]:
    """All attempts of a file, in the order of their batch, or in which they ended. Raises RolloutFormatError."""
    return [attempt for batch in iterate_batches(path) for attempt in decoded(path, batch)]


def decoded(path: Path | str, rows: pa.RecordBatch) -> list[Trajectory]:
    """Rows of SCHEMA that `path` has. Raises RolloutFormatError."""
    with typed_damage(path):
        return decode(rows)


def read_held(stream: IO[bytes], place: str) -> list[Trajectory]:
    """All attempts of a sealed file that lies at `place`, in the order of writing. Raises RolloutFormatError."""
    file = _open_sealed(stream, place)
    numbers = range(file.num_row_groups)
    return [
        attempt
        for number in numbers
        for rows in _read_row_group(place, file, number, SCHEMA.names).to_batches()
        for attempt in decoded(place, rows)
    ]


def read_attempt(path: Path, attempt_id: str) -> Trajectory:
    """One attempt, whole. Raises NoSuchAttemptError, RolloutFormatError."""
    [attempt] = decoded(path, _find_row(path, attempt_id, SCHEMA.names))
    return attempt


def find_attempt(files: Mapping[str, Path], attempt_id: str) -> Path | None:
    """The file that holds an attempt: of the step in which it began, or of a later one that trained it."""
    own = label_of_attempt(attempt_id)
    labels = [label for label in files if label == own] + [label for label in files if label != own]
    return next((files[label] for label in labels if _holds(files[label], attempt_id)), None)


def read_row(path: Path, attempt_id: str, columns: Sequence[str]) -> dict[str, Any]:
    """Columns of one attempt, none of them its segments. Raises NoSuchAttemptError, RolloutFormatError."""
    with typed_damage(path):
        [row] = decode_plain(_find_row(path, attempt_id, columns), columns)
    return row


def read_columns(path: Path, columns: Sequence[str]) -> pa.Table:
    """Some columns of all attempts, with the file's metadata; of a sealed file nothing else is read.

    Raises RolloutFormatError.
    """
    batches = list(iterate_batches(path, columns))
    schema = pa.schema([SCHEMA.field(name) for name in columns], batches[0].schema.metadata if batches else None)
    return pa.Table.from_batches(batches, schema)


def iterate_batches(
    path: Path, columns: Sequence[str] = tuple(SCHEMA.names), *, holding: str = ""
) -> Iterator[pa.RecordBatch]:
    """A few attempts at a time, but for those that are known to have no text `holding`. Raises RolloutFormatError."""
    if path.suffix == JOURNAL:
        return _journal_batches(path, columns)
    return _sealed_batches(path, columns, holding)


def _journal_batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Up to where it ends, in the middle of a record if its writer was killed, or is at it, or is damaged.

    The format has no checksums: what is read of a damaged record unchecked may end this process.
    """
    _refuse_no_file(path)
    with path.open("rb") as file:
        try:
            stream = pa.ipc.open_stream(file)
        except _DAMAGE:
            return
        _refuse_other_version(path, stream.schema)
        with typed_damage(path):
            if not stream.schema.equals(SCHEMA):
                raise ValueError("these are no columns of ours")
        while True:
            try:
                batch = stream.read_next_batch()
                batch.validate(full=True)
            except (StopIteration, *_DAMAGE):
                return
            yield batch.select(list(columns))


def _sealed_batches(path: Path, columns: Sequence[str], holding: str) -> Iterator[pa.RecordBatch]:
    with _open_sealed(path, path) as file:
        told = file.metadata.metadata
        for number in range(file.num_row_groups):
            if not may_hold(trigrams_of_group(told, number), holding):
                continue
            yield from _read_row_group(path, file, number, columns).to_batches()


def _holds(path: Path, attempt_id: str) -> bool:
    return escape(attempt_id) in read_columns(path, ["attempt_id"]).column(0).to_pylist()


def _find_row(path: Path, attempt_id: str, columns: Sequence[str]) -> pa.RecordBatch:
    found = _row_of_journal if path.suffix == JOURNAL else _row_of_sealed
    row = found(path, escape(attempt_id), columns)
    if row is None:
        raise NoSuchAttemptError(f"{path} holds no attempt {attempt_id}")
    return row


def _row_of_journal(path: Path, attempt_id: str, columns: Sequence[str]) -> pa.RecordBatch | None:
    for batch in _journal_batches(path, list(dict.fromkeys([*columns, "attempt_id"]))):
        if batch.column("attempt_id")[0].as_py() == attempt_id:
            return batch.select(list(columns))
    return None


def _row_of_sealed(path: Path, attempt_id: str, columns: Sequence[str]) -> pa.RecordBatch | None:
    with _open_sealed(path, path) as file:
        for number in range(file.num_row_groups):
            ids = _read_row_group(path, file, number, ["attempt_id"]).column(0).to_pylist()
            if attempt_id in ids:
                row = _read_row_group(path, file, number, columns).slice(ids.index(attempt_id), 1)
                return row.combine_chunks().to_batches()[0]
    return None


def _open_sealed(source: Path | IO[bytes], place: Path | str) -> pq.ParquetFile:
    if isinstance(source, Path):
        _refuse_no_file(source)
    with typed_damage(place):
        file = pq.ParquetFile(source, page_checksum_verification=True)
        schema = file.schema_arrow
    _refuse_other_version(place, schema)
    return file


def _read_row_group(path: Path | str, file: pq.ParquetFile, number: int, columns: Sequence[str]) -> pa.Table:
    with typed_damage(path):
        return file.read_row_group(number, list(columns)).select(list(columns))


@contextmanager
def typed_damage(path: Path | str) -> Iterator[None]:
    """Whatever Arrow, and reading what it gives, make of content that is not what was written; not of files that are
    gone, or may not be read."""
    try:
        yield
    except (SweyardError, FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, EOFError) as error:
        raise RolloutFormatError(
            f"{path} is no rollout file: it is damaged, or another program's; remove it to do without"
        ) from error


def _refuse_no_file(path: Path) -> None:
    """A pipe, say, may have no end, nor a beginning; whatever a run's own code leaves is read."""
    if path.exists() and not path.is_file():
        raise RolloutFormatError(f"{path} is no file: remove it to do without")


def _refuse_other_version(path: Path | str, schema: pa.Schema) -> None:
    found = (schema.metadata or {}).get(VERSION_KEY)
    if found != VERSION:
        of = "none" if found is None else found.decode(errors="replace")
        raise RolloutFormatError(
            f"{path} has version {of} of the rollout schema, and this sweyard reads {VERSION.decode()}: "
            "read it with the version that wrote it"
        )
