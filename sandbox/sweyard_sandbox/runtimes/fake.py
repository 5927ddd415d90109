"""FakeRuntime: sandboxes in memory for tests of what lives above: files, scripted commands, failures on demand.

    runtime = FakeRuntime(files={"/testbed/a.py": b"x = 1"}, script=[Reply("pytest", exit_code=1, output=b"1 failed")])

A command is answered by the first reply whose pattern it contains; of replies with `times`, by one that is not used up.
A few commands work without a script: `true`, `false`, `cat PATH`, `echo WORDS`. Anything else raises UnscriptedCommand,
so a test never passes because nothing happened. What needs no shell is as in any runtime: files, caps,
refusals and endings (tests/sandbox/contract/test_every_runtime.py).
"""

import errno
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from sweyard_sandbox.driver.sandbox import build_prelude
from sweyard_sandbox.driver.wire import encode_shell_text
from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError
from sweyard_sandbox.runtime import DEFAULT_OUTPUT_CAP_BYTES, Result


class UnscriptedCommand(AssertionError):
    """A command that the test did not foresee."""


@dataclass(slots=True)
class Reply:
    """What to answer to a command that `pattern` (a regular expression) is found in."""

    pattern: str
    exit_code: int = 0
    output: bytes = b""
    seconds: float = 0.0
    """Simulated; more than the command's timeout makes it time out."""
    oom_killed: bool = False
    error: InfrastructureError | None = None
    """Raised instead of answering; the sandbox is dead from then on."""
    effect: "Callable[[FakeSandbox], None] | None" = None
    """Changes the sandbox, for example its files."""
    times: int | None = None
    """How often it may be used; None: always."""


@dataclass(frozen=True, slots=True)
class Call:
    """One command as it was given."""

    sandbox: str
    command: str
    cwd: str | None
    env: dict[str, str]
    user: str | None
    timeout_seconds: float


class FakeSandbox:
    """Files in a dictionary, commands from a script."""

    def __init__(self, name: str, image: str, files: dict[str, bytes], runtime: "FakeRuntime") -> None:
        self.files = files
        """Path to bytes; tests may change it."""
        self.modes: dict[str, int] = {}
        self.image = image
        self.closed = False
        self._name = name
        self._runtime = runtime
        self._death: InfrastructureError | None = None

    @property
    def id(self) -> str:
        """fake-0, fake-1, ..."""
        return self._name

    def die(self, reason: FailureReason, message: str = "made to die by the test") -> None:
        """From now on everything raises InfrastructureError."""
        self._death = InfrastructureError(reason, message)

    async def run(
        self,
        command: str,
        *,
        timeout_seconds: float,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        output_cap_bytes: int = DEFAULT_OUTPUT_CAP_BYTES,
    ) -> Result:
        """Answer from the script. Raises ValueError for what no shell can be told, as every runtime does."""
        self._check_alive()
        build_prelude(cwd, env, user)
        encode_shell_text(command)
        self._runtime.calls.append(Call(self._name, command, cwd, dict(env or {}), user, timeout_seconds))
        reply = self._runtime.find_reply(command) or self._builtin(command, cwd)
        if reply.error is not None:
            self._death = reply.error
            raise reply.error
        if reply.effect is not None:
            reply.effect(self)
        timed_out = reply.seconds > timeout_seconds
        return Result(
            exit_code=-1 if timed_out else reply.exit_code,
            output=reply.output[:output_cap_bytes],
            truncated=len(reply.output) > output_cap_bytes,
            timed_out=timed_out,
            seconds=min(reply.seconds, timeout_seconds),
            oom_killed=reply.oom_killed,
        )

    async def read(self, path: str, *, cap_bytes: int = 64_000_000) -> bytes:
        """Bytes of a file; OSError(EFBIG) if there are more than `cap_bytes`."""
        self._check_alive()
        place = self._place(path)
        self._check_kind(place, path)
        if place not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if len(self.files[place]) > cap_bytes:
            raise OSError(errno.EFBIG, f"longer than cap_bytes={cap_bytes}; raise the cap or read a part", path)
        return self.files[place]

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file."""
        self._check_alive()
        place = self._place(path)
        self._check_kind(place, path)
        self.files[place] = data
        self.modes[place] = mode

    async def close(self) -> None:
        """Give it back."""
        if not self.closed:
            self.closed = True
            self._runtime.released.append(self._name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_alive(self) -> None:
        if self.closed:
            raise InfrastructureError(FailureReason.DELETED, "the sandbox is closed")
        if self._death is not None:
            raise self._death

    def _place(self, path: str, cwd: str | None = None) -> str:
        """Where a path leads, from the task's directory or from `cwd`."""
        return posixpath.normpath(posixpath.join(self._runtime.working_directory, cwd or "", path))

    def _check_kind(self, place: str, path: str) -> None:
        """No directory, and below no file. Directories are there for as long as a file lies below them."""
        if any(name.startswith(f"{place.rstrip('/')}/") for name in self.files):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if any(place.startswith(f"{name}/") for name in self.files):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)

    def _builtin(self, command: str, cwd: str | None) -> Reply:
        words = shlex.split(command)
        match words:
            case ["true"] | []:
                return Reply("")
            case ["false"]:
                return Reply("", exit_code=1)
            case ["echo", *rest]:
                return Reply("", output=" ".join(rest).encode() + b"\n")
            case ["cat", path] if (place := self._place(path, cwd)) in self.files:
                return Reply("", output=self.files[place])
            case ["cat", path]:
                return Reply("", exit_code=1, output=f"cat: {path}: No such file or directory\n".encode())
        raise UnscriptedCommand(f"no Reply for {command!r}")


@dataclass(slots=True)
class FakeRuntime:
    """Gives out FakeSandbox; everything that happened is recorded."""

    files: dict[str, bytes] = field(default_factory=dict)
    """What every sandbox starts with, by absolute path."""
    working_directory: str = "/testbed"
    """The task's: where relative paths begin."""
    script: list[Reply] = field(default_factory=list)
    acquire_errors: list[InfrastructureError | None] = field(default_factory=list)
    """For the first calls of `acquire`, in order: what to raise, or None to succeed."""
    max_sandboxes: int | None = None
    """More at once raise ClaimTimeoutError."""
    calls: list[Call] = field(default_factory=list)
    acquired: list[str] = field(default_factory=list)
    """Images, in order."""
    released: list[str] = field(default_factory=list)
    announced: list[list[str]] = field(default_factory=list)
    sandboxes: list[FakeSandbox] = field(default_factory=list)
    closed: bool = False

    async def acquire(self, image: str, *, deadline_seconds: float) -> FakeSandbox:
        """A sandbox with a copy of `files`."""
        if self.acquire_errors and (error := self.acquire_errors.pop(0)) is not None:
            raise error
        num_open = sum(not sandbox.closed for sandbox in self.sandboxes)
        if self.max_sandboxes is not None and num_open >= self.max_sandboxes:
            raise ClaimTimeoutError(f"all {self.max_sandboxes} fake sandboxes are in use")
        sandbox = FakeSandbox(f"fake-{len(self.sandboxes)}", image, dict(self.files), self)
        self.sandboxes.append(sandbox)
        self.acquired.append(image)
        return sandbox

    async def announce(self, images: list[str]) -> None:
        """Record the demand."""
        self.announced.append(list(images))

    async def close(self) -> None:
        """Close all sandboxes."""
        for sandbox in self.sandboxes:
            await sandbox.close()
        self.closed = True

    def find_reply(self, command: str) -> Reply | None:
        """The first usable reply whose pattern is found in `command`; counts its use."""
        for reply in self._usable():
            if re.search(reply.pattern, command):
                if reply.times is not None:
                    reply.times -= 1
                return reply
        return None

    def _usable(self) -> Iterable[Reply]:
        return (reply for reply in self.script if reply.times is None or reply.times > 0)
