"""A program on a terminal of its own, typed into and read."""

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

PATIENCE_SECONDS = 120.0


@dataclass
class Terminal:
    """What a person has in front of it."""

    master: int
    slave: int
    process: "subprocess.Popen[bytes]"
    shown: bytes = b""
    modes: list[object] = field(default_factory=list)
    """Before the program began."""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def resize(self, lines: int, columns: int) -> None:
        """The kernel tells the program."""
        termios.tcsetwinsize(self.master, (lines, columns))

    def wait_for(self, text: str) -> None:
        """Until it was shown, from what came after the last that was waited for. Raises TimeoutError."""
        end = time.monotonic() + PATIENCE_SECONDS
        while text.encode() not in self.shown:
            if time.monotonic() > end:
                raise TimeoutError(f"{text!r} did not come; there was {self.shown[-2000:]!r}")
            if select.select([self.master], [], [], 0.1)[0]:
                self.shown += os.read(self.master, 65_536)
        self.shown = self.shown.partition(text.encode())[2]

    @property
    def is_as_before(self) -> bool:
        """Echo, line editing and signals, as they were."""
        return termios.tcgetattr(self.slave) == self.modes


@contextmanager
def terminal(command: Sequence[str], environment: Mapping[str, str], lines: int, columns: int) -> Iterator[Terminal]:
    """`command` on a terminal of so many lines, which is its controlling one; ended at the end."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(master, (lines, columns))
    modes = termios.tcgetattr(slave)
    process = subprocess.Popen(
        ["setsid", "--ctty", *command], env=dict(environment), stdin=slave, stdout=slave, stderr=slave
    )
    try:
        yield Terminal(master, slave, process, modes=modes)
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)
