"""The seam between attempts and where they run: kubernetes, docker, local and fake implement these protocols.

Invariants every implementation keeps (tests/sandbox/contract):
- standard input of a command is closed; a command never waits for input and never eats the next request;
- output is bytes exactly as written, stdout and stderr merged in order, cut at the cap with `truncated` set;
- a timeout kills the command's whole process group, and the sandbox stays usable;
- a command runs at most once: if the channel breaks meanwhile the caller gets CommandMayHaveRunError;
- what the sandbox's own death causes is InfrastructureError, never a Result.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

DEFAULT_OUTPUT_CAP_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
    """What one command did."""

    exit_code: int
    """As the shell sees it: 128 + n for death by signal n; -1 when it timed out."""
    output: bytes
    """stdout and stderr merged, at most the cap."""
    truncated: bool = False
    """Output went past the cap; the rest was read and dropped."""
    timed_out: bool = False
    """The timeout killed it."""
    seconds: float = 0.0
    """Wall time in the sandbox."""
    oom_killed: bool = False
    """The kernel killed a process of this command for memory (from the container's cgroup)."""

    @property
    def text(self) -> str:
        """Output decoded for people and models; undecodable bytes become U+FFFD."""
        return self.output.decode("utf-8", errors="replace")


class Sandbox(Protocol):
    """One isolated place to run commands in, for one attempt."""

    @property
    def id(self) -> str:
        """Unique name, for logs."""
        ...

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
        """Run `command` by `sh -c`. `cwd` defaults to the task's working directory.

        Raises InfrastructureError if the sandbox died, CommandMayHaveRunError if the channel broke meanwhile.
        """
        ...

    async def read(self, path: str, *, cap_bytes: int = 64_000_000) -> bytes:
        """Bytes of a file. Raises FileNotFoundError, IsADirectoryError, PermissionError as a local open would."""
        ...

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making parent directories. Raises PermissionError; InfrastructureError on a full disk."""
        ...

    async def close(self) -> None:
        """Give the sandbox back: it is destroyed. Safe to call twice, and after its death."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class ForksPython(Protocol):
    """What a sandbox may offer besides: Python programs without the cost of starting an interpreter."""

    async def run_python(
        self, archive: str, arguments: Sequence[str], *, timeout_seconds: float, output_cap_bytes: int
    ) -> Result:
        """As `run` of `python3 -I archive arguments`; `archive` is a zip file in the sandbox. Raises as `run` does."""
        ...


@runtime_checkable
class ListensInside(Protocol):
    """What a sandbox may offer besides: a socket that its commands can connect to, served from outside of it."""

    async def listen(self) -> socket.socket:
        """A listening socket on a free port of the sandbox's own 127.0.0.1. Raises InfrastructureError."""
        ...


@runtime_checkable
class MayServeAgain(Protocol):
    """What a sandbox may offer besides: after its reset it would serve somebody else, unless its holder forbids it."""

    def forbid_reuse(self) -> None:
        """Destroy it when it is closed."""
        ...


class Runtime(Protocol):
    """A source of sandboxes."""

    async def acquire(self, image: str, *, deadline_seconds: float) -> Sandbox:
        """A fresh sandbox of `image`, ready to run commands.

        Raises ClaimTimeoutError past the deadline, InfrastructureError when it can never succeed.
        """
        ...

    async def announce(self, images: list[str]) -> None:
        """Say which images the next attempts want, in order of need (one write a step); replaces the last list."""
        ...

    async def close(self) -> None:
        """Give back everything that is held. Safe to call twice."""
        ...


@runtime_checkable
class KeepsTrees(Protocol):
    """What a runtime may offer besides: images made of the state that a sandbox has reached."""

    async def keep_tree(self, sandbox: Sandbox) -> str | None:
        """An image of its task's tree as it now is, which lives as long as the runtime; None if there is no room."""
        ...
