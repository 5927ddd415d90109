"""The trainer as a child process: started, told to stop, and what its end means."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType
from typing import IO, Any

import yaml

from sweyard_cli.local.lock import lock
from sweyard_cli.local.log import LOG_FILE, last_sentence, tail
from sweyard_cli.results.files import read_json

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STANDARD_INPUT = Path("/dev/stdin")
PROGRESS_FILE = "progress.json"
STOPPED_CODES = (143, -signal.SIGTERM)
"""With a checkpoint taken, or before there was anything to keep."""


class TrainerProcess:
    """A trainer in a session of its own, so that the terminal's signals reach it through us alone, and once."""

    def __init__(self, command: Sequence[str], output: Path, document: Mapping[str, Any] | None = None) -> None:
        """`document` is its standard input. Raises UserError if another process is at work in `output`."""
        output.mkdir(parents=True, exist_ok=True)
        self.log = output / LOG_FILE
        self._progress = output / PROGRESS_FILE
        with lock(output) as held, self.log.open("ab") as log, _opened(document) as given:
            self._log_begin = log.tell()
            self.report_before = modified_at(self._progress)
            """When an earlier life last wrote its progress, in nanoseconds; 0 if none did."""
            self.popen = subprocess.Popen(
                command,
                stdin=given,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(held.fileno(),),
            )

    def stop(self) -> None:
        """Ask for a checkpoint and an end."""
        self.popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and its children at once."""
        os.killpg(self.popen.pid, signal.SIGKILL)

    @property
    def is_finished(self) -> bool:
        """All work of the run is done and written; the process may still be ending."""
        if modified_at(self._progress) == self.report_before:
            return False
        return read_json(self._progress).get("phase") == "finished"

    @property
    def is_stopped(self) -> bool:
        """It ended because it was asked to, with work left."""
        return self.popen.poll() in STOPPED_CODES and not self.is_finished

    @property
    def exit_code(self) -> int:
        """As a shell gives it; only after the end. A signal that comes when the work is done changes nothing."""
        code = self.popen.wait()
        if code in (*STOPPED_CODES, -signal.SIGKILL) and self.is_finished:
            return 0
        return code if code >= 0 else 128 - code

    def reason(self) -> str:
        """Why it failed, in one sentence."""
        code = self.popen.wait()
        if is_full(self.log.parent):
            return f"no space left for {self.log.parent}, its log included: make some, and run it again"
        if code == -signal.SIGKILL:
            return "it was killed (SIGKILL), as the kernel does when memory runs out"
        if code < 0:
            return f"it was killed by {signal.Signals(-code).name}; it said last: {last_sentence(self._said())}"
        return last_sentence(self._said())

    def _said(self) -> str:
        return tail(self.log, self._log_begin)


@contextmanager
def _opened(document: Mapping[str, Any] | None) -> Iterator[IO[bytes]]:
    """To be read by a child. In no file of the run's directory, which may turn out to be another run's."""
    with TemporaryFile() as given:
        if document is not None:
            given.write(yaml.safe_dump(dict(document), sort_keys=False).encode())
            given.seek(0)
        yield given


def modified_at(path: Path) -> int:
    """Nanoseconds; 0 if there is no such file."""
    return path.stat().st_mtime_ns if path.exists() else 0


def is_full(directory: Path) -> bool:
    """Whether not one more block can be written there."""
    return os.statvfs(directory).f_bavail == 0


def trainer_command(file: Path | None, output: Path, datasets: Sequence[Path], *, allow_unisolated: bool) -> list[str]:
    """Command line of the trainer; without a file it reads its run from its standard input."""
    command = [
        sys.executable,
        "-m",
        "sweyard_trainer.local",
        "-f",
        str(file or STANDARD_INPUT),
        "--output",
        str(output),
    ]
    for dataset in datasets:
        command += ["--datasets", str(dataset)]
    return command + (["--allow-unisolated"] if allow_unisolated else [])


@contextmanager
def stopped_with(process: TrainerProcess) -> Iterator[None]:
    """No trainer is left at work that nobody knows of: where following it fails, it is stopped and its end awaited.

    So it is when nobody reads what is told any more, in a pipe that is closed or on a terminal that is gone.
    """
    try:
        yield
    finally:
        if process.popen.poll() is None:
            process.stop()
            process.popen.wait()


@contextmanager
def forwarded_signals(process: TrainerProcess, say: Callable[[str], None]) -> Iterator[None]:
    """The first signal asks the trainer to stop, the second ends it."""
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if process.popen.poll() is not None:
            return
        if asked:
            process.kill()
            return
        asked = True
        if process.is_finished:
            say("the run is finished, the trainer only has to end; once more to end it at once")
            return
        say("stopping: the trainer takes a checkpoint first, if there are weights to keep; once more to end it at once")
        process.stop()

    before = {number: signal.signal(number, handle) for number in FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
