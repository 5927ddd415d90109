"""Tasks by name: from a data set's folder, a mounted ConfigMap, a file, or a hub."""

import gzip
import json
import logging
import random
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweyard_api.constants import DATASET_MOUNT_PATH, DEMO_DATASET
from sweyard_api.program import program
from sweyard_api.workload import TaskSource
from sweyard_sandbox.errors import SweyardError, TaskFormatError
from sweyard_sandbox.tasks.formats import ADAPTERS, detect_format
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tasks.tasks_file import TASKS_FILE

HUB_SPLIT = "train"


class DatasetError(SweyardError, ValueError):
    """A data set cannot be found or read, or the selection leaves nothing."""


def load_tasks(source: TaskSource, base_directories: Sequence[Path]) -> list[Task]:
    """Tasks of a source, selected and shuffled as it says. `dir:` images come out absolute.

    Raises DatasetError naming what was looked for. A row that cannot be a task is told on standard error.
    """
    tasks = list(_read(source, base_directories))
    splits = sorted({_split_of(task) for task in tasks} - {""})
    if source.split is not None and splits:
        if source.split not in splits:
            raise DatasetError(f"tasks of {source.dataset!r}: no split {source.split!r}; there are {', '.join(splits)}")
        tasks = [task for task in tasks if _split_of(task) == source.split]
    elif source.split is None:
        tasks = [task for task in tasks if _split_of(task) != "practice"]  # nothing can grade those
    chosen = select(tasks, source)
    if not chosen:
        raise DatasetError(f"tasks of {source.dataset!r}: the selection (ids, repositories, split) leaves none")
    return chosen


def select(tasks: Iterable[Task], source: TaskSource) -> list[Task]:
    """Filter by ids and repositories, shuffle by seed, cut at the limit. Raises DatasetError for an unknown id."""
    chosen = list(tasks)
    if missing := set(source.ids) - {task.id for task in chosen}:
        raise DatasetError(f"tasks of {source.dataset!r}: no such id: {', '.join(sorted(missing)[:5])}")
    if source.ids:
        chosen = [task for task in chosen if task.id in set(source.ids)]
    if source.repositories:
        chosen = [task for task in chosen if task.repository in set(source.repositories)]
    if source.seed is not None:
        random.Random(source.seed).shuffle(chosen)
    return chosen[: source.limit]


def find_dataset(name: str, base_directories: Sequence[Path]) -> Path | None:
    """File of a data set given by path or plain name; None for a hub id."""
    if name.startswith((".", "/", "~")):
        path = Path(name).expanduser()
        path = path / TASKS_FILE if path.is_dir() else path
        if not path.exists():
            raise DatasetError(f"dataset {name!r}: no such file or folder with {TASKS_FILE}")
        return path
    for base in base_directories:
        if (path := base / name / TASKS_FILE).exists():
            return path
    if "/" in name:
        return None
    # What pods have mounted means nothing where there is no such folder.
    looked = [base for base in base_directories if base.exists() or base != Path(DATASET_MOUNT_PATH)]
    places = " or ".join(map(str, looked or base_directories))
    raise DatasetError(f"dataset {name!r} is not in {places}; {_how_to_make(name)}")


def _how_to_make(name: str) -> str:
    if name == DEMO_DATASET:
        return "`make demo` makes it"
    command = f"{program()} tasks make --name {name} --repo DIR"
    return f"make it of a package whose tests pass: `{command}`, or with --package NAME==VERSION"


def _read(source: TaskSource, base_directories: Sequence[Path]) -> Iterator[Task]:
    path = find_dataset(source.dataset, base_directories)
    if path is None:
        yield from adapt_rows(hub_rows(source.dataset, source.split), source.format, _complain)
        return
    for task in adapt_rows(read_rows(path), source.format, _complain):
        yield task.model_copy(update={"image": _absolute(task.image, path.parent.resolve())})


def load_all_tasks(dataset: Path) -> list[Task]:
    """Every task of a folder or file, practice included, images as they are written. Raises DatasetError."""
    path = find_dataset(str(dataset.absolute()), ())
    assert path is not None, "a path is no hub id"
    return list(adapt_rows(read_rows(path), "auto", _complain))


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSONL file, gzipped or not, or of a Parquet file. Raises DatasetError, for JSONL naming the line."""
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    for number, line in enumerate(_content(path).splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DatasetError(f"dataset {path}: line {number} is no JSON ({error}); make it again") from error
            if not isinstance(row, dict):
                raise DatasetError(f"dataset {path}: line {number} is no JSON object; each line must hold one task")
            yield row


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """In a table each row has each field, null where it lacks it."""
    from pyarrow import ArrowException, parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except (ArrowException, OSError) as error:
        raise DatasetError(f"dataset {path} cannot be read: {str(error).splitlines()[0]}") from error
    yield from map(_without_nulls, rows)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def _content(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"dataset {path} is damaged ({error}); make it again") from error
    except OSError as error:
        raise DatasetError(f"dataset {path} cannot be read: {error.strerror}") from error


def _absolute(image: str, folder: Path) -> str:
    if image.startswith("dir:"):
        return f"dir:{folder / image.removeprefix('dir:')}"
    return image


def _split_of(task: Task) -> str:
    return next((tag.removeprefix("split:") for tag in task.tags if tag.startswith("split:")), "")


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
    except (OSError, ValueError, RuntimeError, httpx.HTTPError) as error:
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


def adapt_rows(rows: Iterable[dict[str, Any]], schema: str, complain: Callable[[str], None]) -> Iterator[Task]:
    """Tasks of rows; a row that cannot be one is told, with its reason, and the rest go on."""
    for number, row in enumerate(rows):
        try:
            adapter = ADAPTERS.get(detect_format(row) if schema == "auto" else schema)
            if adapter is None:
                raise DatasetError(f"format {schema!r} is not read by this version; use one of {', '.join(ADAPTERS)}")
            yield adapter(dict(row), number)
        except TaskFormatError as error:
            complain(str(error))


def _complain(text: str) -> None:
    print(f"left out: {text}", file=sys.stderr)
