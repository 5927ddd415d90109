"""DriverSandbox: the Sandbox protocol over a driver; the same for every runtime that has a shell in its sandboxes."""

import errno
import re
import shlex
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.wire import encode_exports, encode_shell_text
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.runtime import DEFAULT_OUTPUT_CAP_BYTES, Result

_FILE_TIMEOUT_SECONDS = 120.0
_ERROR_TEXT_BYTES = 4_096
_IS_DIRECTORY = 21

_PORTION_BYTES = 8_000_000
"""Larger files travel in portions: the spool may be as small as a container's /dev/shm, 64 MB."""
_READ = """\
export LC_ALL=C
path={path}
[ -d "$path" ] && exit 21
[ {begin} = 1 ] && exec cat "$path"
exec tail -c +{begin} "$path\""""
_WRITE = """\
export LC_ALL=C
path={path}
[ -d "$path" ] && exit 21
[ -e "$spool/$SWEYARD_COMMAND.put.$driver" ] || {{ echo "No space left"; exit 1; }}
mkdir -p "$(dirname "$path")" && cat "$spool/$SWEYARD_COMMAND.put.$driver" {redirect}"$path" && chmod {mode} "$path"
exit"""
_AS_USER = """\
user={user}
if [ "$(id -u)" != "$(id -u "$user" || echo "$user")" ]; then
  if setpriv --help 2>&1 | grep -q -e --reuid; then
    if group=$(id -g "$user"); then groups=--init-groups; else group=$user groups=--clear-groups; fi
    launch="setpriv --reuid=$user --regid=$group $groups sh -c"
  else
    launch="su -p -s /bin/sh $user -c"
  fi
  home=$(eval echo "~$user")
  case $home in /*) ;; *) home=/ ;; esac
  export HOME="$home" USER="$user" LOGNAME="$user"
fi 2>/dev/null"""


class DriverSandbox:
    """A sandbox whose commands go through a driver; `destroy` ends the sandbox itself."""

    def __init__(self, name: str, client: DriverClient, destroy: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._client = client
        self._destroy = destroy
        self._closed = False

    @property
    def id(self) -> str:
        """Name of the pod, container or process."""
        return self._name

    @property
    def client(self) -> DriverClient:
        """The stream below, for its counters."""
        return self._client

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
        """Run `command` by `sh -c`."""
        return await self._client.run(
            command,
            timeout_seconds=timeout_seconds,
            prelude=build_prelude(cwd, env, user),
            output_cap_bytes=output_cap_bytes,
        )

    async def read(self, path: str, *, cap_bytes: int = 64_000_000) -> bytes:
        """Bytes of a file; OSError(EFBIG) if there are more than `cap_bytes`."""
        data = bytearray()
        while True:
            size = min(_PORTION_BYTES if data else DEFAULT_OUTPUT_CAP_BYTES, cap_bytes - len(data))
            result = await self._files(_READ.format(path=_quote(path), begin=len(data) + 1), output_cap_bytes=size)
            _raise_for_file(result, path)
            data += result.output
            if not result.truncated:
                return bytes(data)
            if len(data) >= cap_bytes:
                raise OSError(errno.EFBIG, f"longer than cap_bytes={cap_bytes}; raise the cap or read a part", path)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making parent directories."""
        for begin in range(0, max(1, len(data)), _PORTION_BYTES):
            script = _WRITE.format(path=_quote(path), mode=f"{mode:o}", redirect=">>" if begin else ">")
            portion = data[begin : begin + _PORTION_BYTES]
            _raise_for_file(await self._files(script, payload=portion), path)

    async def _files(
        self, script: str, *, payload: bytes | None = None, output_cap_bytes: int = _ERROR_TEXT_BYTES
    ) -> Result:
        """Run lines in the driver's own shell, which knows where the payload is."""
        return await self._client.run(
            "",
            timeout_seconds=_FILE_TIMEOUT_SECONDS,
            prelude=script,
            payload=payload,
            output_cap_bytes=output_cap_bytes,
        )

    async def close(self) -> None:
        """Destroy the sandbox."""
        if self._closed:
            return
        self._closed = True
        await self._client.close()
        await self._destroy()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def build_prelude(cwd: str | None, env: dict[str, str] | None, user: str | None) -> str:
    """Shell lines to be evaluated before the command; with `user` they change $launch, which starts it.

    Raises ValueError for arguments that no shell can be told.
    """
    lines = []
    if user is not None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", user):
            raise ValueError(f"user {user!r} is no user name; give a name or a numeric id")
        lines.append(_AS_USER.format(user=user))
    lines += encode_exports(env or {})
    if cwd is not None:
        lines.append(f"cd {_quote(cwd)} || exit 126")
    prelude = "\n".join(lines) or ":"
    encode_shell_text(prelude)
    return prelude


def _quote(path: str) -> str:
    """For the shell, and never taken for an option."""
    return shlex.quote(path if path.startswith("/") else f"./{path}")


def _raise_for_file(result: Result, path: str) -> None:
    """The exception that a local open would raise, read from what the tools print in the C locale."""
    if result.exit_code == 0:
        return
    text = result.text[:_ERROR_TEXT_BYTES].strip()
    if result.timed_out:
        raise InfrastructureError(FailureReason.ERROR, f"{path}: not read or written in {_FILE_TIMEOUT_SECONDS:.0f} s")
    if result.exit_code == _IS_DIRECTORY:
        raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    for words, number in (
        ("No such file", errno.ENOENT),
        ("nonexistent", errno.ENOENT),
        ("Not a directory", errno.ENOTDIR),
        ("File exists", errno.ENOTDIR),
        ("Permission denied", errno.EACCES),
        ("Operation not permitted", errno.EPERM),
        ("Read-only file system", errno.EACCES),
    ):
        if words in text:
            raise OSError(number, text, path)
    # The text of an error is short: if it is cut, the disk took none of it.
    if result.truncated or "No space left" in text or "quota exceeded" in text:
        raise InfrastructureError(FailureReason.DISK_FULL, text)
    raise OSError(errno.EIO, text or f"ended with {result.exit_code}", path)
