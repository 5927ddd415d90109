"""Rows of chats: JSONL, gzipped or not, Parquet, and data sets of the hub. Read one by one, as they may be large."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from sweyard_api.recorded import is_hub_id
from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.tasks.rows import hub_rows

COLUMN = "messages"
BATCH_ROWS = 64


class DemonstrationFileError(SweyardError, ValueError):
    """A file that cannot be read, or of which no row can be learned from."""


class NoRow:
    """Stands for a row that is there and cannot be read."""


def read_rows(path: Path) -> Iterator[Any]:
    """Of a file, or of the hub id that `path` is. Raises DemonstrationFileError, DatasetError."""
    if not path.is_file() and is_hub_id(str(path)):
        yield from hub_rows(str(path))
        return
    if not path.is_file():
        raise DemonstrationFileError(f"{path}: there is no such file of trajectories")
    try:
        yield from _parquet_rows(path) if path.suffix == ".parquet" else _json_rows(path)
    except (pyarrow.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise DemonstrationFileError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def _json_rows(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError:
                    yield NoRow()


def _parquet_rows(path: Path) -> Iterator[Any]:
    with pyarrow.parquet.ParquetFile(path) as file:
        if COLUMN not in file.schema_arrow.names:
            raise DemonstrationFileError(
                f"{path} has no column `{COLUMN}`; it has {', '.join(file.schema_arrow.names)}"
            )
        for batch in file.iter_batches(BATCH_ROWS, columns=[COLUMN]):
            yield from batch.to_pylist()
