"""Directories that appear whole or not at all.

Invariants: a directory of this kind has its final name only once everything in it is on disk, and has the file
COMPLETE; one that lacks the file is rubbish, whoever left it. Removal takes COMPLETE away first.
"""

import errno
import fcntl
import glob
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweyard_trainer.completeness import COMPLETE, is_complete
from sweyard_trainer.storage_errors import typed_storage_errors

PARTIAL_SUFFIX = ".partial"


@contextmanager
def atomic_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory beside `target` that becomes `target` if the block ends well, and vanishes if not.

    Two writers may do this at once: one wins, the other's work is dropped (same content is the caller's promise).
    Raises StorageFullError.
    """
    partial = _partial(target)
    with typed_storage_errors(target):
        partial.mkdir(parents=True)
        try:
            yield partial
            _finish(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """As `atomic_directory`, for a directory of the user's: it replaces nothing, and COMPLETE is not left in it.

    What a writer of it left that was killed goes. Raises FileExistsError, StorageFullError.
    """
    if target.exists():
        raise FileExistsError(errno.EEXIST, "is there already, and nothing is overwritten", str(target))
    partial = _partial(target)
    with typed_storage_errors(target):
        _remove_orphans(target)
        partial.mkdir(parents=True)
        held = os.open(partial, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield partial
            for path in sorted(partial.rglob("*")):
                _fsync(path)
            partial.rename(target)  # fails where a directory with anything in it has appeared meanwhile
            _fsync(target.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            os.close(held)


def _remove_orphans(target: Path) -> None:
    """What writers by `new_directory` left that were killed: nobody holds it."""
    for partial in _partials(target):
        descriptor = os.open(partial, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(partial)
        except BlockingIOError:
            continue  # it is being written
        finally:
            os.close(descriptor)


def _partials(target: Path) -> Iterator[Path]:
    return target.parent.glob(f"{glob.escape(target.name)}.*{PARTIAL_SUFFIX}")


def _partial(target: Path) -> Path:
    """Where a writer prepares `target`."""
    return target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}{PARTIAL_SUFFIX}")


def _finish(partial: Path, target: Path) -> None:
    """Everything in `partial` is written: make it durable and give it its name."""
    seal(partial)
    if target.exists() and not is_complete(target):
        shutil.rmtree(target)
    try:
        partial.rename(target)
    except OSError:
        if not is_complete(target):  # not a lost race
            raise
    _fsync(target.parent)


def seal(directory: Path) -> None:
    """Everything in it is written: make it durable, then mark it COMPLETE."""
    for path in sorted(directory.rglob("*")):
        _fsync(path)
    _fsync(directory)
    (directory / COMPLETE).touch()
    for path in (directory / COMPLETE, directory, directory.parent):
        _fsync(path)


def remove_directory(directory: Path) -> None:
    """Remove it in an order that never leaves half of it looking whole."""
    (directory / COMPLETE).unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def remove_abandoned(target: Path) -> None:
    """What writers of `target` left when they were killed; for a target of which there is one writer at a time."""
    for partial in _partials(target):
        shutil.rmtree(partial, ignore_errors=True)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
