"""Processes of a cluster: started detached, recorded so that no other process is ever ended in their place."""

import contextlib
import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import ClusterError

PROC = Path("/proc")
MARKER = "SWEYARD_CLUSTER_STATE"
"""Environment variable, naming the state directory, that marks a process as a cluster's even if no record was kept."""
POLL_SECONDS = 0.05
DISK_FULL = "no space left on device"
TRACE_CHARACTERS = 8_000
"""What a Go program prints when it gives up."""


@dataclass(frozen=True)
class ProcessRecord:
    """Which process: a pid alone may be another's after its end, with boot, start time and program it cannot."""

    pid: int
    boot_id: str
    start_ticks: int
    executable: str


def identify(pid: int, proc: Path = PROC) -> ProcessRecord | None:
    """The record of a living process; None if there is none or it is a zombie."""
    try:
        after_name = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        executable = os.readlink(proc / str(pid) / "exe")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    if after_name[0] in "ZX":
        return None
    boot_id = (proc / "sys/kernel/random/boot_id").read_text().strip()
    return ProcessRecord(pid, boot_id, int(after_name[19]), executable)


def only_child(pid: int, deadline_seconds: float = 10) -> int:
    """Pid of the process that `pid` forked, waiting for it; raises ClusterError when `pid` ends first."""
    ends = time.monotonic() + deadline_seconds
    while time.monotonic() < ends and identify(pid):
        children = (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(POLL_SECONDS)
    raise ClusterError(f"process {pid} ended before it started its child")


def inherited_descriptors() -> list[int]:
    """What whoever started us left open: a lock or a pipe of theirs must not live as long as a daemon."""
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    return [number for number in descriptors if number > 2 and _is_inheritable(number)]


def _is_inheritable(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:  # that of the listing itself
        return False


class ProcessTable:
    """The recorded processes of one cluster, by name; records are files, logs lie beside them."""

    def __init__(self, records: Path, logs: Path, marker: str) -> None:
        self.records = records
        self.logs = logs
        self.marker = marker

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def read(self, name: str) -> ProcessRecord | None:
        try:
            return ProcessRecord(**json.loads((self.records / f"{name}.json").read_text()))
        except FileNotFoundError:
            return None

    def write(self, name: str, record: ProcessRecord) -> None:
        self.records.mkdir(parents=True, exist_ok=True)
        temporary = self.records / f".{name}.new"
        temporary.write_text(json.dumps(dataclasses.asdict(record)))
        os.replace(temporary, self.records / f"{name}.json")

    def running(self, name: str) -> ProcessRecord | None:
        record = self.read(name)
        return record if record and identify(record.pid) == record else None

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.records.glob("[!.]*.json"))

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> ProcessRecord:
        """Start a detached process unless it already runs; raises ClusterError if the program cannot be run."""
        if record := self.running(name):
            return record
        self.logs.mkdir(parents=True, exist_ok=True)
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(self.log(name)), append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in inherited_descriptors()),
        ]
        try:
            pid = os.posix_spawnp(
                command[0], list(command), {**environment, MARKER: self.marker}, file_actions=actions, setsid=True
            )
        except OSError as error:
            raise ClusterError(f"cannot start {name}: {command[0]}: {error.strerror}") from error
        started = identify(pid)
        if started is None:
            raise ClusterError(f"{name} ended at once; {self.last_words(name)}")
        self.write(name, started)
        return started

    def stop(self, name: str, grace_seconds: float = 10) -> None:
        """End the recorded process, and forget it."""
        if record := self.running(name):
            end_process(record, grace_seconds)
        (self.records / f"{name}.json").unlink(missing_ok=True)

    def strays(self) -> Iterator[ProcessRecord]:
        """Living processes that carry this cluster's marker, recorded or not."""
        wanted = f"{MARKER}={self.marker}".encode()
        for entry in PROC.iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0") and (record := identify(int(entry.name))):
                    yield record

    def stop_strays(self) -> None:
        """End what a killed `up` started without recording it."""
        recorded = [record for name in self.names() if (record := self.running(name))]
        for stray in list(self.strays()):
            if stray not in recorded and not inside_recorded(stray, recorded):
                end_process(stray, grace_seconds=5)

    def wait(self, name: str, ready: Callable[[], bool], deadline_seconds: float, needs: Sequence[str] = ()) -> None:
        """Wait until `ready`; raises ClusterError with the last log lines if the process ends or time is up.

        So it does when one of those that it `needs` ends, which is then told in its place.
        """
        ends = time.monotonic() + deadline_seconds
        while not ready():
            if ended := [one for one in (*needs, name) if not self.running(one)]:
                raise ClusterError(f"{ended[0]} ended; {self.last_words(ended[0])}")
            if time.monotonic() > ends:
                raise ClusterError(f"{name} was not ready in {deadline_seconds:.0f} s; {self.last_words(name)}")
            time.sleep(POLL_SECONDS)

    def last_words(self, name: str, lines: int = 5) -> str:
        """The end of its log; of a full disk, which programs tell above a long trace, a sentence."""
        log = self.log(name)
        if DISK_FULL in self._said(name)[-TRACE_CHARACTERS:]:
            return f"no space left for {self.marker}: make some, and run it again (log: {log})"
        return f"the end of {log}:\n" + "\n".join(self.last_lines(name, lines))

    def last_lines(self, name: str, lines: int) -> list[str]:
        """Of its log; none where there is none."""
        return self._said(name).splitlines()[-lines:]

    def _said(self, name: str) -> str:
        log = self.log(name)
        return log.read_text(errors="replace") if log.exists() else ""


def inside_recorded(record: ProcessRecord, recorded: Sequence[ProcessRecord]) -> bool:
    """Whether a recorded process is among the ancestors."""
    pids = {one.pid for one in recorded}
    pid = record.pid
    while pid > 1:
        if pid in pids:
            return True
        try:
            pid = int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return False
    return False


def end_process(record: ProcessRecord, grace_seconds: float) -> None:
    """SIGTERM, then SIGKILL after the grace; a zombie of ours is reaped."""
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 10.0)):
        if seconds <= 0 or identify(record.pid) != record:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)
        ends = time.monotonic() + seconds
        while identify(record.pid) == record and time.monotonic() < ends:
            time.sleep(POLL_SECONDS)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(record.pid, os.WNOHANG)
