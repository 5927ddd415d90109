"""Rows of a data set, one at a time: from a file (JSONL, gzipped or not, Parquet), a folder of these, or a hub.

A folder of tasks in Harbor's format gives a row a task (harbor_folder.py). What is damaged in a file is told in its
place, and the rest goes on.
"""

import gzip
import json
import logging
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.tasks.harbor_folder import TASK_TOML, harbor_rows
from sweyard_sandbox.tasks.tasks_file import TASKS_FILE

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

Row = dict[str, Any]

HUB_SPLIT = "train"
ROW_FILES = (".parquet", ".jsonl", ".jsonl.gz")
PARQUET_BATCH_ROWS = 256


class DatasetError(SweyardError, ValueError):
    """A data set cannot be found or read, or the selection leaves nothing."""


@dataclass(frozen=True, slots=True)
class NoRow:
    """Stands where a file has something that cannot be read as a row."""

    reason: str
    """Names the file, and the line or rows in it."""


def read_rows(path: Path, split: str | None = None) -> Iterator[Row | NoRow]:
    """Rows of a file or folder. Raises DatasetError for what cannot be read at all.

    Of a folder of files for several splits, as hubs keep them (`train-00000-of-00002.parquet`), those of `split`.
    """
    if path.is_dir():
        yield from _folder_rows(path, split)
    elif path.suffix == ".parquet":
        yield from _parquet_rows(path)
    else:
        yield from _json_rows(path)


def _folder_rows(folder: Path, split: str | None) -> Iterator[Row | NoRow]:
    if (own := folder / TASKS_FILE).exists():
        yield from read_rows(own)
        return
    if files := sorted(path for path in folder.rglob("*") if path.name.endswith(ROW_FILES) and path.is_file()):
        named = [path for path in files if split is not None and path.name.startswith(split)]
        for file in named or files:
            yield from read_rows(file)
        return
    rows = harbor_rows(folder)
    if not rows:
        kinds = f"{TASKS_FILE}, {', '.join(f'*{ending}' for ending in ROW_FILES)} or tasks with a {TASK_TOML}"
        raise DatasetError(f"dataset {folder}: no such file or folder with {kinds}")
    yield from rows


def _json_rows(path: Path) -> Iterator[Row | NoRow]:
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            yield _json_row(line, f"{path}, line {number}")


def _json_row(line: bytes, place: str) -> Row | NoRow:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return NoRow(f"{place} is no JSON ({error}); repair or remove it")
    return row if isinstance(row, dict) else NoRow(f"{place} is no JSON object; each line must hold one task")


def _lines(path: Path) -> Iterator[bytes]:
    try:
        if path.suffix == ".gz":  # whole, so that a damaged one gives no row at all
            yield from gzip.decompress(path.read_bytes()).splitlines()
            return
        with path.open("rb") as file:
            yield from file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"dataset {path} is damaged ({error}); make it again") from error
    except OSError as error:
        raise DatasetError(f"dataset {path} cannot be read: {error.strerror}") from error


def _parquet_rows(path: Path) -> Iterator[Row | NoRow]:
    """In a table each row has each field, null where it lacks it."""
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            first = 0
            for group in range(file.num_row_groups):
                yield from _group_rows(file, group, first, path)
                first += file.metadata.row_group(group).num_rows
    except (ArrowException, OSError) as error:
        raise DatasetError(f"dataset {path} cannot be read: {_first_line(error)}") from error


def _group_rows(file: "ParquetFile", group: int, first: int, path: Path) -> Iterator[Row | NoRow]:
    """Of one row group, the first of whose rows has the number `first`. What is left of a damaged one is lost."""
    from pyarrow import ArrowException

    number = first
    batches = file.iter_batches(PARQUET_BATCH_ROWS, row_groups=[group])
    while True:
        try:
            batch = next(batches, None)
        except (ArrowException, OSError) as error:
            last = first + file.metadata.row_group(group).num_rows - 1
            yield NoRow(f"{path}, rows {number} to {last} cannot be read: {_first_line(error)}")
            return
        if batch is None:
            return
        for index in range(batch.num_rows):
            yield _table_row(batch, index, f"{path}, row {number}")
            number += 1


def _table_row(batch: "RecordBatch", index: int, place: str) -> Row | NoRow:
    try:
        [row] = batch.slice(index, 1).to_pylist()
    except UnicodeDecodeError as error:
        return NoRow(f"{place} has a text that is no UTF-8 ({error}); repair or remove it")
    return {name: _without_nulls(value) for name, value in row.items() if value is not None}


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def hub_rows(dataset: str, split: str | None = None) -> Iterable[Row]:
    """Of a data set by its hub id. Raises DatasetError."""
    try:
        import datasets
        import httpx
    except ImportError as error:
        raise DatasetError(f"dataset {dataset!r} is on a hub: install `datasets`, or use a file") from error
    try:
        with _hub_is_quiet():
            rows: Iterable[Row] = datasets.load_dataset(dataset, split=split or HUB_SPLIT)
    except (OSError, EOFError, ValueError, RuntimeError, httpx.HTTPError) as error:
        cause = _first_line(error).rstrip(".")
        raise DatasetError(
            f"dataset {dataset!r} cannot be had from the hub ({cause}); check the name and the network, set "
            f"HF_ENDPOINT to a mirror or HF_TOKEN for a private one, or name a local file as ./FILE.jsonl"
        ) from error
    return rows


@contextmanager
def _hub_is_quiet() -> Iterator[None]:
    """The hub's client tells each try again in a warning; what comes of it is said once, at the end."""
    client = logging.getLogger("huggingface_hub")
    level = client.level
    client.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        client.setLevel(level)
