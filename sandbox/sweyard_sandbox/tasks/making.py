"""One making of a data set, as `sweyard tasks make` asks for it: sources, sizes, and where it goes."""

import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from sweyard_sandbox.tasks.exclusive import exclusive
from sweyard_sandbox.tasks.make import Options, Progress, make_dataset
from sweyard_sandbox.tasks.mutation.kinds import KINDS
from sweyard_sandbox.tasks.sizes import Kept, splits_of
from sweyard_sandbox.tasks.source import Source, SourceError, copy_repository, fetch_package
from sweyard_sandbox.tasks.telling import Telling

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What is made of what."""

    name: str
    cache: Path
    """Downloads, sources and, unless `out` says otherwise, data sets."""
    packages: Sequence[str] = ()
    """NAME==VERSION, for splits train and heldout."""
    repositories: Sequence[Path] = ()
    """For the same."""
    unseen_packages: Sequence[str] = ()
    """NAME==VERSION, for split unseen."""
    options: Options = field(default_factory=Options)
    out: Path | None = None

    @property
    def folder(self) -> Path:
        """Where the data set is written."""
        return self.out or self.cache / "datasets" / self.name


def run(making: Making) -> Path:
    """Fetch the sources and make the data set; returns its folder. Raises SourceError."""
    check(making)
    with _termination_as_exit(), exclusive(making.cache, lambda text: print(text, file=sys.stderr, flush=True)):
        telling = Telling(sys.stderr, time.monotonic)
        try:
            kept = _make(making, telling)
        finally:
            telling.end()
    print(f"{len(kept.tasks)} tasks in {making.folder}: {splits_of(kept.tasks)}")
    if kept.remark:
        print(kept.remark)
    return making.folder


def check(making: Making) -> None:
    """Raises SourceError for what cannot be made, before anything is fetched."""
    if not _NAME.fullmatch(making.name):
        raise SourceError(f"--name {making.name!r} must be letters, digits, '.', '_' and '-', and begin with no sign")
    if unknown := making.options.kinds - set(KINDS):
        raise SourceError(f"--kinds: {sorted(unknown)} unknown; choose of {', '.join(KINDS)}")
    if not any((making.packages, making.repositories, making.unseen_packages)):
        raise SourceError("name at least one source: --package NAME==VERSION or --repo DIR")


def _make(making: Making, telling: Progress) -> Kept:
    seen, unseen = sources_of(making, telling)
    return make_dataset(making.folder, seen, unseen, making.options, telling)


def sources_of(making: Making, progress: Progress) -> tuple[list[Source], list[Source]]:
    """The trees of what is seen in training and of what is not, fetched where they are not here. Raises SourceError."""

    def fetched(requirement: str) -> Source:
        progress(f"{requirement}: fetching its source archive from the package index")
        return fetch_package(requirement, making.cache)

    seen = [fetched(requirement) for requirement in making.packages]
    seen += [copy_repository(repository, making.cache) for repository in making.repositories]
    return seen, [fetched(requirement) for requirement in making.unseen_packages]


@contextmanager
def _termination_as_exit() -> Iterator[None]:
    """SIGTERM ends the block like an interrupt does, so that processes and temporary folders go with it."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
