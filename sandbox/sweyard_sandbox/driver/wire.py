"""Wire format of the driver: requests to bytes, bytes to answers. No I/O.

driver.sh describes the format. A body has no length; it ends at a mark made of a secret that commands do not know.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

MAX_INLINE_COMMAND_BYTES = 100_000
"""Longer commands travel as a file: the kernel limits one argument to 128 KiB."""
BOOTSTRAP = 'p=;while IFS= read -r l&&[ "$l" != \'#end\' ];do p="$p$l\n";done;eval "$p"'
"""`sh -c BOOTSTRAP` reads the driver from its input: so it needs no file, and no command line names its tools."""
_LONGEST_LINE_BYTES = 4_096
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
class Exited:
    """A command's shell ended."""

    id: str
    code: int
    oom_kills: int


@dataclass(frozen=True, slots=True)
class Body:
    """What a command wrote."""

    id: str
    output: bytes
    cut: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """The driver never began this command."""

    id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The driver could not begin this command: the spool cannot be written."""

    id: str


Answer = Hello | Exited | Body | Unknown | Refused


@dataclass(frozen=True, slots=True)
class Marks:
    """End marks of one sandbox, made of a secret."""

    secret: str

    def token(self, command_id: str) -> str:
        """What the driver is told to write into the marks of one command."""
        return f"{self.secret}-{command_id}"

    def after_output(self, command_id: str) -> bytes:
        """Follows the last byte that was written before the command's shell ended."""
        return f"\n-mark-{self.token(command_id)}\n".encode()

    def after_body(self, command_id: str) -> bytes:
        """Ends the body."""
        return f"\n-end-{self.token(command_id)}\n".encode()


def encode_driver(environment: dict[str, str]) -> bytes:
    """The program for BOOTSTRAP, followed by the exports that all commands get."""
    program = resources.files("sweyard_sandbox.driver").joinpath("driver.sh").read_text("ascii")
    lines = [line for line in program.splitlines() if not line.lstrip().startswith("#")]
    exports = "\n".join(encode_exports(environment)) or ":"
    return ("\n".join(lines) + "\n#end\n" + f"init {_count_lines(exports)}\n{exports}\n").encode()


def encode_exports(environment: dict[str, str]) -> list[str]:
    """Shell lines that export `environment`. Raises ValueError for a name that no shell can hold."""
    for name in environment:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"environment variable {name!r}: use letters, digits and _ only")
    return [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]


def encode_run(command_id: str, token: str, *, cap_bytes: int, prelude: str, command: str) -> bytes:
    """Request to run `command` after evaluating `prelude` in the driver's own shell."""
    blocks = (cap_bytes + len(token) + 16) // 512 + 1
    header = f"run {command_id} {token} {blocks} {_count_lines(prelude)} {_count_lines(command)}\n"
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


def cut_output(body: Body, marks: Marks, cap_bytes: int) -> tuple[bytes, bool]:
    """The command's own output, at most `cap_bytes`, and whether there was more."""
    end = body.output.find(marks.after_output(body.id))
    output = body.output if end < 0 else body.output[:end]
    return output[:cap_bytes], len(output) > cap_bytes or (end < 0 and body.cut)


class AnswerParser:
    """Bytes in any portions to answers. Raises WireError for anything that is not one."""

    def __init__(self, marks: Marks, *, max_body_bytes: int) -> None:
        self._marks = marks
        self._max_body_bytes = max_body_bytes
        self._buffer = bytearray()
        self._body: tuple[str, bool] | None = None
        self._searched = 0

    def feed(self, data: bytes) -> Iterable[Answer]:
        """Answers completed by `data`."""
        self._buffer += data
        while (answer := self._next_body() if self._body else self._next_line()) is not None:
            if not isinstance(answer, _BodyBegins):
                yield answer

    def _next_line(self) -> "Answer | _BodyBegins | None":
        end = self._buffer.find(b"\n", 0, _LONGEST_LINE_BYTES)
        if end < 0:
            if len(self._buffer) >= _LONGEST_LINE_BYTES:
                raise WireError("a line of an answer has no end")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        answer = _parse_line(line)
        if isinstance(answer, _BodyBegins):
            self._body, self._searched = (answer.id, answer.cut), 0
        return answer

    def _next_body(self) -> Body | None:
        assert self._body is not None
        command_id, cut = self._body
        mark = self._marks.after_body(command_id)
        end = self._buffer.find(mark, self._searched)
        if end < 0:
            if len(self._buffer) > self._max_body_bytes:
                raise WireError(f"a body is longer than {self._max_body_bytes} bytes")
            self._searched = max(0, len(self._buffer) - len(mark))
            return None
        output = bytes(self._buffer[:end])
        del self._buffer[: end + len(mark)]
        self._body = None
        return Body(command_id, output, cut)


@dataclass(frozen=True, slots=True)
class _BodyBegins:
    id: str
    cut: bool


def _parse_line(line: bytes) -> Answer | _BodyBegins:
    match line.decode("ascii", "replace").split(" "):
        case ["hello", exact, session, spool]:
            return Hello(exact == "1", session == "setsid", spool)
        case ["exit", command_id, code, kills] if code.isdigit() and kills.lstrip("-").isdigit():
            return Exited(command_id, int(code), int(kills))
        case ["body", command_id, ("0" | "1") as cut]:
            return _BodyBegins(command_id, cut == "1")
        case ["unknown", command_id]:
            return Unknown(command_id)
        case ["refused", command_id]:
            return Refused(command_id)
    raise WireError(f"not an answer: {line[:80]!r}")


def _count_lines(text: str) -> int:
    return text.count("\n") + 1
