"""Command line of the maker; `sweyard tasks make` takes the same options."""

import argparse
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from sweyard_api.cache_root import cache_root
from sweyard_sandbox.tasks.exclusive import exclusive
from sweyard_sandbox.tasks.make import Options, Quotas, make_dataset
from sweyard_sandbox.tasks.mutation.kinds import DIFFICULTY
from sweyard_sandbox.tasks.sizes import USUAL, Kept, splits_of
from sweyard_sandbox.tasks.source import Source, SourceError, copy_repository, fetch_package
from sweyard_sandbox.tasks.telling import Telling

SPLITS = {
    "train": "tasks to train on",
    "heldout": "tasks in other functions of the same packages",
    "unseen": "tasks in the packages never trained on",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """All options; `environment` says where the cache is by default."""
    parsing = argparse.ArgumentParser(prog="sweyard tasks make", description="Make bug-repair tasks from packages.")
    parsing.add_argument("--name", type=_name, required=True, help="name of the data set")
    parsing.add_argument("--package", action="append", default=[], metavar="NAME==VERSION", help="train and heldout")
    parsing.add_argument("--repo", action="append", default=[], type=Path, metavar="DIR", help="train and heldout")
    parsing.add_argument("--unseen-package", action="append", default=[], metavar="NAME==VERSION", help="split unseen")
    for split, meaning in SPLITS.items():
        usual = f"(default: {USUAL[split]}, or what there is of it)"
        parsing.add_argument(f"--{split}", type=_count, metavar="N", help=f"{meaning} {usual}")
    parsing.add_argument(
        "--practice",
        type=_count,
        default=0,
        help="unverified ones to demonstrate on, split practice (default: %(default)s)",
    )
    parsing.add_argument("--kinds", default="", help=f"comma separated, of: {', '.join(DIFFICULTY)} (default: all)")
    parsing.add_argument(
        "--per-function", type=_positive, default=6, help="at most so many tasks of one function (default: %(default)s)"
    )
    parsing.add_argument("--seed", type=int, default=0, help="draws tasks and splits (default: %(default)s)")
    parsing.add_argument(
        "--jobs", type=_positive, default=(os.cpu_count() or 1) + 1, help="processes (default: %(default)s)"
    )
    parsing.add_argument(
        "--cache",
        type=Path,
        default=cache_root(environment),
        help="downloads, data sets (default: %(default)s)",
    )
    parsing.add_argument("--out", type=Path, help="folder to write (default: CACHE/datasets/NAME)")
    return parsing


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} must be letters, digits, '.', '_' and '-', and begin with no sign")
    return text


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, at least 0")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, at least 1")
    return int(text)


def run(arguments: argparse.Namespace) -> Path:
    """Fetch the sources and make the data set; returns its folder. Raises SourceError."""
    kinds = frozenset(filter(None, arguments.kinds.split(",")))
    if unknown := kinds - set(DIFFICULTY):
        raise SourceError(f"--kinds: {sorted(unknown)} unknown; choose of {', '.join(DIFFICULTY)}")
    if not any((arguments.package, arguments.repo, arguments.unseen_package)):
        raise SourceError("name at least one source: --package NAME==VERSION or --repo DIR")
    cache: Path = arguments.cache
    out: Path = arguments.out or cache / "datasets" / arguments.name
    with _termination_as_exit(), exclusive(cache, lambda text: print(text, file=sys.stderr, flush=True)):
        telling = Telling(sys.stderr, time.monotonic)
        try:
            kept = _make(arguments, kinds, out, telling)
        finally:
            telling.end()
    print(f"{len(kept.tasks)} tasks in {out}: {splits_of(kept.tasks)}")
    if kept.remark:
        print(kept.remark)
    return out


def _make(arguments: argparse.Namespace, kinds: frozenset[str], out: Path, telling: Telling) -> Kept:
    cache: Path = arguments.cache
    seen: list[Source] = [fetch_package(requirement, cache) for requirement in arguments.package]
    seen += [copy_repository(repository, cache) for repository in arguments.repo]
    unseen = [fetch_package(requirement, cache) for requirement in arguments.unseen_package]
    quotas = Quotas(arguments.train, arguments.heldout, arguments.unseen, arguments.practice)
    options = Options(arguments.seed, quotas, kinds, arguments.per_function, arguments.jobs)
    return make_dataset(out, seen, unseen, options, telling)


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


def main() -> None:
    """Entry point."""
    try:
        run(parser(os.environ).parse_args())
    except SourceError as error:
        sys.exit(f"error: {error}")
