"""Rows of a data set, one at a time: from a file (JSONL, gzipped or not, Parquet), a folder of these, or a hub.

A folder of tasks in Harbor's format gives a row a task (harbor_folder.py).
"""

import gzip
import json
import logging
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.tasks.harbor_folder import TASK_TOML, harbor_rows
from sweyard_sandbox.tasks.tasks_file import TASKS_FILE

HUB_SPLIT = "train"
ROW_FILES = (".parquet", ".jsonl", ".jsonl.gz")
PARQUET_BATCH_ROWS = 256


class DatasetError(SweyardError, ValueError):
    """A data set cannot be found or read, or the selection leaves nothing."""


def read_rows(path: Path, split: str | None = None) -> Iterator[dict[str, Any]]:
    """Rows of a file or folder. Raises DatasetError, for JSONL naming the line.

    Of a folder of files for several splits, as hubs keep them (`train-00000-of-00002.parquet`), those of `split`.
    """
    if path.is_dir():
        yield from _folder_rows(path, split)
    elif path.suffix == ".parquet":
        yield from _parquet_rows(path)
    else:
        yield from _json_rows(path)


def _folder_rows(folder: Path, split: str | None) -> Iterator[dict[str, Any]]:
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


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DatasetError(f"dataset {path}: line {number} is no JSON ({error}); make it again") from error
            if not isinstance(row, dict):
                raise DatasetError(f"dataset {path}: line {number} is no JSON object; each line must hold one task")
            yield row


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


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """In a table each row has each field, null where it lacks it."""
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(PARQUET_BATCH_ROWS):
                yield from map(_without_nulls, batch.to_pylist())
    except (ArrowException, OSError) as error:
        raise DatasetError(f"dataset {path} cannot be read: {str(error).splitlines()[0]}") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def hub_rows(dataset: str, split: str | None = None) -> Iterable[dict[str, Any]]:
    """Of a data set by its hub id. Raises DatasetError."""
    try:
        import datasets
        import httpx
    except ImportError as error:
        raise DatasetError(f"dataset {dataset!r} is on a hub: install `datasets`, or use a file") from error
    try:
        with _hub_is_quiet():
            rows: Iterable[dict[str, Any]] = datasets.load_dataset(dataset, split=split or HUB_SPLIT)
    except (OSError, EOFError, ValueError, RuntimeError, httpx.HTTPError) as error:
        cause = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
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
