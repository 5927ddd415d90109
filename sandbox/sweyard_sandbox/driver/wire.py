"""Wire format of the driver: requests to bytes, bytes to answers. No I/O.

driver.sh describes the format. Output has no length; it ends at a mark made of a secret that commands do not know.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

MAX_INLINE_COMMAND_BYTES = 100_000
"""Longer commands travel as a file: the kernel limits one argument to 128 KiB."""
BOOTSTRAP = 'p=;while IFS= read -r l&&[ "$l" != \'#end\' ];do p="$p$l\n";done;eval "$p"'
"""`sh -c BOOTSTRAP` reads the driver from its input: so it needs no file, and no command line names its tools."""
_LONGEST_MARK_BYTES = 512
_LARGEST_COPY_BYTES = 256 * 1024
"""More than tee copies at a time: when the file is full, the stream has had all up to the cap."""
_OVERREAD_PADDING = b"\n" * 8_192


class WireError(Exception):
    """The stream carried something that the driver does not write."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The driver is ready."""

    exact_head: bool
    """`head -c` in the sandbox takes no byte too many from a pipe; else raw payloads are padded."""
    new_session: bool
    """Commands get a session of their own; without setsid a timeout finds processes by their environment only."""
    spool: str


@dataclass(frozen=True, slots=True)
class Begun:
    """What follows is the output of this command, from its first byte; what came before belongs to no one."""

    id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A command's shell ended."""

    id: str
    code: int
    oom_kills: int
    cut: bool
    output: bytes
    """All that came since the last mark."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The driver never began this command."""

    id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The driver could not begin this command: the spool cannot be written."""

    id: str


@dataclass(frozen=True, slots=True)
class Lacks:
    """The image has not all the tools that the driver needs."""

    tools: tuple[str, ...]


Answer = Hello | Lacks | Begun | Ended | Unknown | Refused


def encode_driver(secret: str, environment: dict[str, str]) -> bytes:
    """The program for BOOTSTRAP, followed by the secret of its marks and the exports that all commands get."""
    program = resources.files("sweyard_sandbox.driver").joinpath("driver.sh").read_text("ascii")
    lines = [line for line in program.splitlines() if not line.lstrip().startswith("#")]
    exports = "\n".join(encode_exports(environment)) or ":"
    return ("\n".join(lines) + "\n#end\n" + f"init {secret} {_count_lines(exports)}\n{exports}\n").encode()


def encode_exports(environment: dict[str, str]) -> list[str]:
    """Shell lines that export `environment`. Raises ValueError for a name that no shell can hold."""
    for name in environment:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"environment variable {name!r}: use letters, digits and _ only")
    return [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]


def encode_run(command_id: str, *, cap_bytes: int, prelude: str, command: str) -> bytes:
    """Request to run `command` after evaluating `prelude` in the driver's own shell."""
    blocks = (cap_bytes + _LARGEST_COPY_BYTES) // 512 + 1
    header = f"run {command_id} {blocks} {_count_lines(prelude)} {_count_lines(command)}\n"
    text = "".join(part + "\n" for part in (prelude, command))
    if "\0" in text:
        raise ValueError("a command cannot contain a NUL byte; write the data to a file instead")
    return (header + text).encode("utf-8", "surrogateescape")


def encode_put(name: str, data: bytes, *, exact_head: bool) -> bytes:
    """Request to store `data` in the spool."""
    return f"put {name} {len(data)}\n".encode() + data + (b"" if exact_head else _OVERREAD_PADDING)


def encode_line(*words: str) -> bytes:
    """A request without payload."""
    return (" ".join(words) + "\n").encode()


class AnswerParser:
    """Bytes in any portions to answers. Raises WireError for what is no answer."""

    def __init__(self, secret: str, *, max_output_bytes: int) -> None:
        self._mark = f"\n-{secret}-".encode()
        self._max_output_bytes = max_output_bytes
        self._buffer = bytearray()
        self._searched = 0
        self._is_greeted = False

    def feed(self, data: bytes) -> Iterator[Answer]:
        """Answers completed by `data`."""
        self._buffer += data
        while (answer := self._next()) is not None:
            yield answer

    def _next(self) -> Answer | None:
        begin = self._buffer.find(self._mark, self._searched)
        if begin < 0:
            self._searched = max(0, len(self._buffer) - len(self._mark) + 1)
            if len(self._buffer) > self._max_output_bytes:
                raise WireError(f"more than {self._max_output_bytes} bytes without a mark")
            return None
        self._searched = begin
        words_begin = begin + len(self._mark)
        words_end = self._buffer.find(b"\n", words_begin, words_begin + _LONGEST_MARK_BYTES)
        if words_end < 0:
            if len(self._buffer) >= words_begin + _LONGEST_MARK_BYTES:
                raise WireError("a mark has no end")
            return None
        words = bytes(self._buffer[words_begin:words_end])
        output = bytes(self._buffer[:begin])
        answer = _parse_mark(words, output)
        # A driver that greets again was hurt by the command that is running: what that has written stays its output.
        keep = isinstance(answer, Hello) and self._is_greeted
        self._is_greeted = True
        del self._buffer[begin if keep else 0 : words_end + 1]
        self._searched = begin if keep else 0
        return answer


def _parse_mark(words: bytes, output: bytes) -> Answer:
    match words.decode("ascii", "replace").split(" "):
        case ["hello", exact, session, spool]:
            return Hello(exact == "1", session == "setsid", spool)
        case ["lacks", *tools]:
            return Lacks(tuple(tools))
        case ["end", command_id, code, kills, ("0" | "1") as cut] if code.isdigit() and kills.lstrip("-").isdigit():
            return Ended(command_id, int(code), int(kills), cut == "1", output)
        case ["begin" | "resume", command_id]:
            return Begun(command_id)
        case ["unknown", command_id]:
            return Unknown(command_id)
        case ["refused", command_id]:
            return Refused(command_id)
    raise WireError(f"not a mark: {words[:80]!r}")


def _count_lines(text: str) -> int:
    return text.count("\n") + 1
