"""Run tests in a forked child, which may do anything, and collect what it reported before it ended.

The child inherits no secret: its parent learns the nonce only after the fork. Where the parent is root the child
runs as another user. Children that outlive the tests are killed with their process group, and read no further.
"""

import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from .privacy import forbid_inspection
from .run_tests import run

LOG_BYTES = 20_000
RECORD_BYTES = 16_000_000
MEMORY_LIMIT_BYTES = 4 << 30
NOBODY = 65534
RECORDS_DESCRIPTOR = 3
REPLACED_PARTS = 10
"""So many are told."""


@dataclass(frozen=True)
class Selection:
    """Which tests to run, and how."""

    runner: str
    """`pytest` or `unittest`."""
    tests: tuple[str, ...]
    """Test ids, or files for all of their tests."""
    python_path: tuple[str, ...]
    """Folders, relative to the repository, that go on the import path."""
    detailed: bool = False
    """Explain failed assertions (slower)."""


@dataclass
class Run:
    """What the child reported, and how it ended."""

    records: list[tuple[str, str, str]] = field(default_factory=list)
    """(test id, outcome, message) in the order of arrival."""
    finished: bool = False
    """The child said that it had run everything, before its exit."""
    status: int = 0
    """Exit code, or minus the signal that ended it."""
    timed_out: bool = False
    separated: bool = False
    """The child ran as another user than its parent."""
    replaced: list[str] = field(default_factory=list)
    """Parts of the test runner that are no longer what they were before the tests."""
    log: str = ""
    """End of what it printed."""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def run_forked(
    selection: Selection, *, timeout_seconds: float, user: int | None = None, setup: Callable[[], None] | None = None
) -> Run:
    """Run the tests in a child with the cwd of this process; `setup` is called in the child first."""
    start = time.monotonic()
    records_read, records_write = os.pipe()
    log_read, log_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(records_read)
        os.close(log_read)
        _child(selection, records_write, log_write, user, setup)
    os.close(records_write)
    os.close(log_write)
    records, log, timed_out = _drain(child, records_read, log_read, start + timeout_seconds)
    _, status = os.waitpid(child, 0)
    _kill_group(child)
    lines = [json.loads(line) for line in records.decode("utf-8", "replace").splitlines() if _is_record(line)]
    return Run(
        records=[(line[0], line[1], line[2]) for line in lines if len(line) == 3],
        replaced=[line[1] for line in lines if len(line) == 2],
        finished=bool(lines) and lines[-1] == ["finished"],
        status=os.waitstatus_to_exitcode(status),
        timed_out=timed_out,
        separated=user is not None,
        log=log[-LOG_BYTES:].decode("utf-8", "replace"),
        seconds=time.monotonic() - start,
    )


def separate_user(root: Path) -> int | None:
    """Id of the user that tests can run as, or None where this process may not change user or the files forbid it."""
    if os.geteuid() != 0 or not _is_mapped(NOBODY) or Path("/proc/self/setgroups").read_text().strip() == "deny":
        return None
    needed = [root, Path(sys.executable).resolve(), Path(os.__file__)]
    return NOBODY if all(_readable_by_others(path) for path in needed) else None


def _is_mapped(user: int) -> bool:
    """True if the user exists in this user namespace."""
    ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(int(first) <= user < int(first) + int(count) for first, _, count in ranges)


def _readable_by_others(path: Path) -> bool:
    inner = path.stat().st_mode & (0o005 if path.is_dir() or os.access(path, os.X_OK) else 0o004)
    return bool(inner & 0o004) and all(parent.stat().st_mode & 0o001 for parent in path.parents)


def _is_record(line: str) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _child(
    selection: Selection, records: int, log: int, user: int | None, setup: Callable[[], None] | None
) -> NoReturn:
    status = 1
    try:
        if setup is not None:
            setup()
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(records, RECORDS_DESCRIPTOR)
        os.closerange(RECORDS_DESCRIPTOR + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
        forbid_inspection()
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)

        def report(*fields: str) -> None:
            os.write(RECORDS_DESCRIPTOR, json.dumps(fields).encode() + b"\n")

        replaced = run(selection.runner, selection.tests, selection.python_path, report, detailed=selection.detailed)
        for part in replaced[:REPLACED_PARTS]:
            report("replaced", part)
        report("finished")
        sys.stdout.flush()
        sys.stderr.flush()
        status = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def _drain(child: int, records_read: int, log_read: int, deadline: float) -> tuple[bytes, bytes, bool]:
    """Read both pipes until the child ends or its time is over; then kill it and take what is still in the pipes."""
    buffers = {records_read: bytearray(), log_read: bytearray()}
    limits = {records_read: RECORD_BYTES, log_read: 50 * LOG_BYTES}
    timed_out = False
    ended = os.pidfd_open(child)
    for descriptor in buffers:
        os.set_blocking(descriptor, False)
    while True:
        ready, _, _ = select.select([*buffers, ended], [], [], max(0.0, deadline - time.monotonic()))
        for descriptor in [each for each in buffers if each in ready]:
            _take(descriptor, buffers[descriptor], limits[descriptor])
        if ended in ready:
            break
        if not ready or time.monotonic() >= deadline:
            timed_out = True
            _kill_group(child)
            select.select([ended], [], [])
            break
    _kill_group(child)
    for descriptor, buffer in buffers.items():
        while _take(descriptor, buffer, limits[descriptor]):
            pass
        os.close(descriptor)
    os.close(ended)
    return bytes(buffers[records_read]), bytes(buffers[log_read]), timed_out


def _take(descriptor: int, buffer: bytearray, limit: int) -> bool:
    """Move what is there into the buffer (the newest `limit` bytes are kept); False when nothing was there."""
    try:
        chunk = os.read(descriptor, 65_536)
    except BlockingIOError:
        return False
    buffer += chunk
    del buffer[: max(0, len(buffer) - limit)]
    return bool(chunk)


def _kill_group(child: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
