"""A directory that is filled beside its place and takes it when it is whole; what is there stays until then.

What an interrupted fetch received is kept there, and what it has already, or the place, is not sent again.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sweyard_cli.errors import UserError
from sweyard_cli.fetch.lender import Place
from sweyard_cli.fetch.listing import Entry
from sweyard_cli.fetch.parts import ALWAYS, Part
from sweyard_cli.results.files import read_json

MARK = "fetched.json"
"""In it: whose files these are."""
_OF_A_RUN = (*ALWAYS, *Part)
_SMALL_BYTES = 1_000_000
"""Below that a file is sent again: that it is the same is known by its size and whole seconds alone."""


def check_free(output: Path, place: Place) -> None:
    """Raises UserError for a directory with another run's files, or with files that were not fetched."""
    if not output.exists() or _mark(output) == _mark_of(place):
        return
    if (output / MARK).exists() or any((output / name).exists() for name in _OF_A_RUN):
        raise UserError(f"{output} holds the files of another run, which stay: name another directory by --to")


@contextmanager
def staging(output: Path, place: Place) -> Iterator[Path]:
    """A directory that becomes `output` if the block ends well. It stays as `output`.fetching where it does not.

    Raises UserError if another fetch is at work on it.
    """
    check_free(output, place)
    beside = output.absolute().with_name(f"{output.absolute().name}.fetching")
    if beside.exists() and _mark(beside) != _mark_of(place):
        raise UserError(f"{beside} holds a part of another run that was not fetched to its end: remove it")
    beside.mkdir(parents=True, exist_ok=True)
    with (beside / MARK).open("a+", encoding="utf-8") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"{output} is being fetched by another process: wait for its end") from error
        mark.truncate(0)
        mark.write(json.dumps(_mark_of(place)) + "\n")
        mark.flush()
        _put_back(output.absolute())
        yield beside
        _take_place(beside, output.absolute())


def keep_known(entries: Sequence[Entry], places: Sequence[str], output: Path, beside: Path) -> list[Entry]:
    """Bring `beside` as far as it comes without the pod; the entries that must be sent.

    What `output` holds beside these places, such as a report, goes along; what is no longer in them goes.
    """
    names = {entry.name for entry in entries}
    for name, path in _files(beside).items():
        if name not in names:  # of what else was asked for then, or half of a file
            path.unlink()
    for name, path in _files(output).items():
        target = beside / name
        if name in names or name.partition("/")[0] not in places:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                os.link(path, target, follow_symlinks=False)
    return [entry for entry in entries if not _is_known(beside / entry.name, entry)]


def _is_known(path: Path, entry: Entry) -> bool:
    if entry.num_bytes < _SMALL_BYTES or not path.is_file():
        return False
    status = path.stat()
    return (status.st_size, int(status.st_mtime)) == (entry.num_bytes, entry.modified_at)


def _take_place(beside: Path, output: Path) -> None:
    """By renaming; a life that ends between the two leaves both, and the next fetch puts back what there was."""
    old = _replaced(output)
    if output.exists():
        shutil.rmtree(old, ignore_errors=True)
        output.rename(old)
    beside.rename(output)
    if old.exists():
        shutil.rmtree(old)


def _put_back(output: Path) -> None:
    """With it, what was no part of the run, such as a report."""
    if _replaced(output).exists() and not output.exists():
        _replaced(output).rename(output)


def _replaced(output: Path) -> Path:
    return output.with_name(f"{output.name}.replaced")


def _files(directory: Path) -> dict[str, Path]:
    """By their names below it; of links themselves, and without the mark. Empty for a directory that is not there."""
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*")}
    return {name: path for name, path in found.items() if name != MARK and (path.is_symlink() or not path.is_dir())}


def _mark(directory: Path) -> object:
    return read_json(directory / MARK)


def _mark_of(place: Place) -> dict[str, str]:
    return {"namespace": place.namespace, "run": place.run, "uid": place.uid}
