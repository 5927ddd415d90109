"""Tasks by name: from a data set's folder, a mounted ConfigMap, a file, or a hub."""

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from sweyard_api.constants import DATASET_MOUNT_PATH, DEMO_DATASET
from sweyard_api.program import program
from sweyard_api.workload import TaskSource
from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.formats import ADAPTERS, detect_format
from sweyard_sandbox.tasks.rows import DatasetError, NoRow, Row, hub_rows, read_rows
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tasks.tasks_file import TASKS_FILE
from sweyard_sandbox.tree_image import tree_image, tree_of

Complain = Callable[[str], None]
"""Told of each row that cannot be a task, with its reason."""

TOLD_FIELDS = ("id", "repository", "image", "working_directory", "problem_statement")
"""What is told to models, clusters and people, all of whom read UTF-8."""


def load_tasks(source: TaskSource, base_directories: Sequence[Path], complain: Complain | None = None) -> list[Task]:
    """Tasks of a source, selected and shuffled as it says. `dir:` images come out absolute.

    Raises DatasetError naming what was looked for. A row that cannot be a task is told, on standard error by default.
    """
    left_out: list[str] = []

    def leave_out(reason: str) -> None:
        left_out.append(reason)
        (complain or _complain)(reason)

    tasks = list(_read(source, base_directories, leave_out))
    try:
        return _chosen(tasks, source)
    except DatasetError as error:
        raise DatasetError(_with_reasons(str(error), left_out)) from error


def _chosen(tasks: list[Task], source: TaskSource) -> list[Task]:
    if not tasks:
        raise DatasetError(f"tasks of {source.dataset!r}: it holds none")
    splits = sorted({_split_of(task) for task in tasks} - {""})
    if source.split is not None and splits:
        if source.split not in splits:
            raise DatasetError(f"tasks of {source.dataset!r}: no split {source.split!r}; there are {', '.join(splits)}")
        tasks = [task for task in tasks if _split_of(task) == source.split]
    elif source.split is None:
        tasks = [task for task in tasks if _split_of(task) != "practice"]  # nothing can grade those
    if not tasks:
        raise DatasetError(f"tasks of {source.dataset!r}: only tasks to practise on, which nothing can grade")
    chosen = select(tasks, source)
    if not chosen:
        raise DatasetError(f"tasks of {source.dataset!r}: the selection (ids, repositories, ...) leaves none")
    return chosen


def _with_reasons(sentence: str, left_out: list[str]) -> str:
    """Where no row is a task, the first reason is what the user needs."""
    if not left_out:
        return sentence
    what = "1 row is no task," if len(left_out) == 1 else f"{len(left_out)} rows are no tasks, the first"
    return f"{sentence}; {what} because: {left_out[0]}"


def select(tasks: Iterable[Task], source: TaskSource) -> list[Task]:
    """Filter, shuffle by seed, cut at the limit. Raises DatasetError for an unknown id."""
    chosen = list(tasks)
    if missing := set(source.ids) - {task.id for task in chosen}:
        raise DatasetError(f"tasks of {source.dataset!r}: no such id: {', '.join(sorted(missing)[:5])}")
    if source.ids:
        chosen = [task for task in chosen if task.id in set(source.ids)]
    if source.repositories:
        chosen = [task for task in chosen if task.repository in set(source.repositories)]
    if source.difficulties:
        wanted = {f"difficulty:{difficulty}" for difficulty in source.difficulties}
        chosen = [task for task in chosen if wanted & set(task.tags)]
    if source.seed is not None:
        random.Random(source.seed).shuffle(chosen)
    return chosen[: source.limit]


def find_dataset(name: str, base_directories: Sequence[Path]) -> Path | None:
    """File or folder of a data set given by path or plain name; None for a hub id."""
    if name.startswith((".", "/", "~")):
        path = Path(name).expanduser()
        if not path.exists():
            raise DatasetError(f"dataset {name!r}: no such file or folder")
        return path
    for base in base_directories:
        if (path := base / name / TASKS_FILE).exists():
            return path
    if "/" in name:
        return None
    # What pods have mounted means nothing where there is no such folder.
    looked = [base for base in base_directories if base.exists() or base != Path(DATASET_MOUNT_PATH)]
    places = " or ".join(map(str, looked or base_directories))
    raise DatasetError(f"dataset {name!r} is not in {places}; {_how_to_have(name)}")


def _how_to_have(name: str) -> str:
    if Path(name).exists():
        return f"for the one in this directory say ./{name}"
    if name == DEMO_DATASET:
        return "`make demo` makes it"
    command = f"{program()} tasks make --name {name} --repo DIR"
    return f"make it of a package whose tests pass: `{command}`, or with --package NAME==VERSION"


def _read(source: TaskSource, base_directories: Sequence[Path], complain: Complain) -> Iterator[Task]:
    path = find_dataset(source.dataset, base_directories)
    rows = hub_rows(source.dataset, source.split) if path is None else read_rows(path, source.split)
    tasks = adapt_rows(rows, source.format, complain, source.image)
    if path is None:
        yield from tasks
        return
    folder = (path if path.is_dir() else path.parent).resolve()
    for task in tasks:
        yield task.model_copy(update={"image": _absolute(task.image, folder)})


def load_all_tasks(dataset: Path) -> list[Task]:
    """Every task of a folder or file, practice included, images as they are written. Raises DatasetError."""
    path = find_dataset(str(dataset.absolute()), ())
    assert path is not None, "a path is no hub id"
    return list(adapt_rows(read_rows(path), "auto", _complain))


def _absolute(image: str, folder: Path) -> str:
    tree = tree_of(image)
    return image if tree is None else tree_image(folder / tree)


def _split_of(task: Task) -> str:
    return next((tag.removeprefix("split:") for tag in task.tags if tag.startswith("split:")), "")


def adapt_rows(
    rows: Iterable[Row] | Iterable[Row | NoRow], schema: str, complain: Complain, image: str | None = None
) -> Iterator[Task]:
    """Tasks of rows; a row that cannot be one is told, with its reason, and the rest go on.

    `image` is that of rows that name none.
    """
    known: set[str] = set()
    for number, row in enumerate(rows):
        try:
            task = _adapt(row, number, schema, {} if image is None else {"image": image})
            if task.id in known:
                raise TaskFormatError(f"row {number} ({task.id}): an earlier row has this id; drop one of them")
        except TaskFormatError as error:
            complain(str(error))
            continue
        known.add(task.id)
        yield task


def _adapt(row: Row | NoRow, number: int, schema: str, defaults: Row) -> Task:
    if isinstance(row, NoRow):
        raise TaskFormatError(row.reason)
    row = defaults | dict(row)
    task = ADAPTERS[detect_format(row, number) if schema == "auto" else schema](row, number)
    for field in TOLD_FIELDS:
        if not _is_text(getattr(task, field)):
            name = ascii(task.id)[1:-1]
            raise TaskFormatError(f"row {number} ({name}): {field} has half a character (a lone surrogate); repair it")
    return task


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _complain(text: str) -> None:
    print(f"left out: {text}", file=sys.stderr)
