"""Wire format of the driver: requests to bytes, bytes to answers. No I/O.

shell/common.sh describes it. Output has no length; it ends at a mark made of a secret that commands do not know.
"""

import functools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

from sweyard_sandbox.runtime import DEFAULT_OUTPUT_CAP_BYTES

MAX_INLINE_COMMAND_BYTES = 100_000
"""Longer commands travel as a file: the kernel limits one argument to 128 KiB."""
BOOTSTRAP = 'p=;while IFS= read -r l&&[ "$l" != \'#end\' ];do p="$p$l\n";done;eval "$p"'
"""`sh -c BOOTSTRAP` reads the driver from its input: so it needs no file, and no command line names its tools."""
NO_LEDGER = "none"
_POINT = "#@ "
_PARTS = ("common.sh", "serve.sh", "worker.sh", "control.sh", "main.sh")
_MAX_READ_BYTES = 4_096
"""Longer requests are sent raw: a shell reads lines from a stream byte by byte, a system call each."""
_LONGEST_MARK_BYTES = 512
_LARGEST_COPY_BYTES = 256 * 1024
"""More than tee copies at a time: when the file is full, the stream has had all up to the cap."""
_PLAIN_COMMAND = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+:@%,=-]+)*")
_SHELL_WORDS = """
. alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare dirs
disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help
history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set
shift shopt source suspend test then time times trap true type typeset ulimit umask unalias unset until wait while
"""
"""What dash, ash or bash do themselves."""
_OVERREAD_PADDING = b"\n" * 8_192


class WireError(Exception):
    """The stream carried something that the driver does not write."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The driver is ready."""

    exact_head: bool
    """`head -c` in the sandbox takes no byte too many from a pipe; else raw payloads are padded."""
    spool: str
    ledger: str
    """Names what the spool knows of begun commands; another name is a spool without that knowledge."""
    born: str
    """When the sandbox's process 1 began, in the kernel's ticks: another number is another container."""


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
class Ruined:
    """The driver could not begin this command: the spool is gone, and so are the programs to make another."""

    id: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """The driver took this command but did not begin it, and never will: what was to run it was killed."""

    id: str


@dataclass(frozen=True, slots=True)
class Lost:
    """This driver did not begin the command and never will; it cannot know if another did: the spool was removed."""

    id: str


@dataclass(frozen=True, slots=True)
class Lacks:
    """The image has not all the tools that the driver needs."""

    tools: tuple[str, ...]


Answer = Hello | Lacks | Begun | Ended | Unknown | Refused | Ruined | Dropped | Lost


def encode_driver(secret: str, environment: dict[str, str], *, stream: str, ledger: str = NO_LEDGER) -> bytes:
    """The program for BOOTSTRAP, followed by the secret of its marks and the exports that all commands get.

    `stream` is a name that no other stream had, ending in a dot and its number; `ledger` is what the last one had.
    """
    exports = "\n".join(encode_exports(environment)) or ":"
    begin = f"#end\ninit {secret} {_count_lines(exports)} {stream} {ledger}\n{exports}\n"
    return (read_program() + begin).encode()


@functools.cache
def read_program(at_point: str = "") -> str:
    """The driver without its comments: each byte of it costs a system call where it is read.

    `at_point` is what a driver does besides at the points that its text names; {0} in it is the name.
    """
    folder = resources.files("sweyard_sandbox.driver").joinpath("shell")
    lines = [line.strip() for name in _PARTS for line in folder.joinpath(name).read_text("ascii").splitlines()]
    if at_point:
        lines = [at_point.format(line[len(_POINT) :]) if line.startswith(_POINT) else line for line in lines]
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def encode_exports(environment: dict[str, str]) -> list[str]:
    """Shell lines that export `environment`. Raises ValueError for a name that no shell can hold."""
    for name in environment:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"environment variable {name!r}: use letters, digits and _ only")
    return [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]


def encode_run(
    command_id: str, ledger: str, *, cap_bytes: int, prelude: str, command: str, exact_head: bool = True
) -> bytes:
    """Request to run `command` after evaluating `prelude` in the driver's own shell, unless `ledger` is lost.

    Commands of equal cap share the driver's pipe, so caps are rounded up to the usual one.
    """
    blocks = (max(cap_bytes, DEFAULT_OUTPUT_CAP_BYTES) + _LARGEST_COPY_BYTES) // 512 + 1
    words = int(is_plain(command) and "IFS" not in prelude)
    text = encode_shell_text(f"prelude={shlex.quote(prelude)} words={words}\ncommand={shlex.quote(command)}")
    put = b""
    if len(text) > _MAX_READ_BYTES:
        name = f"{command_id}.text"
        put, text = encode_put(name, text, exact_head=exact_head), f'. "$spool/{name}.$driver"'.encode()
    num_lines = text.count(b"\n") + 1
    return put + f"run {command_id} {ledger} {blocks} {num_lines}\n".encode() + text + b"\n"


def is_plain(command: str) -> bool:
    """Whether a shell would only split it at spaces and execute the program that the first word names."""
    return _PLAIN_COMMAND.fullmatch(command) is not None and command.split(" ", 1)[0] not in _SHELL_WORDS.split()


def encode_shell_text(text: str) -> bytes:
    """What a shell is to read; surrogates stand for bytes that are no UTF-8. Raises ValueError for a NUL byte."""
    if "\0" in text:
        raise ValueError("command, cwd and env cannot contain a NUL byte; write the data to a file instead")
    return text.encode("utf-8", "surrogateescape")


def encode_put(name: str, data: bytes, *, exact_head: bool) -> bytes:
    """Request to store `data` in the spool."""
    return f"put {name} {len(data)}\n".encode() + data + (b"" if exact_head else _OVERREAD_PADDING)


def encode_line(*words: str) -> bytes:
    """A request without payload."""
    return (" ".join(words) + "\n").encode()


class AnswerParser:
    """Bytes in any portions to answers. Raises WireError for what is no answer.

    Holds at most `max_output_bytes` of a command's output: what exceeds them is dropped, and the answer says `cut`.
    """

    def __init__(self, secret: str, *, max_output_bytes: int) -> None:
        self.max_output_bytes = max_output_bytes
        self._mark = f"-{secret}-".encode()
        self._window = bytearray()
        """Not yet known to be output: it may be the beginning of a mark."""
        self._output = bytearray()
        self._is_cut = False
        self._is_greeted = False

    def feed(self, data: bytes) -> Iterator[Answer]:
        """Answers completed by `data`."""
        self._window += data
        while (answer := self._next()) is not None:
            yield answer

    def _next(self) -> Answer | None:
        begin = self._window.find(self._mark)
        if begin < 0:
            self._keep(len(self._window) - len(self._mark) + 1)
            return None
        self._keep(begin)
        words_begin = len(self._mark)
        words_end = self._window.find(b"\n", words_begin, words_begin + _LONGEST_MARK_BYTES)
        if words_end < 0:
            if len(self._window) >= words_begin + _LONGEST_MARK_BYTES:
                raise WireError("a mark has no end")
            return None
        words = bytes(self._window[words_begin:words_end])
        del self._window[: words_end + 1]
        answer = _parse_mark(words, bytes(self._output), self._is_cut)
        # A driver that greets again was hurt by the command that is running: what that has written stays its output.
        if not (isinstance(answer, Hello) and self._is_greeted):
            self._output.clear()
            self._is_cut = False
        self._is_greeted = True
        return answer

    def _keep(self, num_bytes: int) -> None:
        """The window's first `num_bytes` are output."""
        if num_bytes > 0:
            room = max(0, self.max_output_bytes - len(self._output))
            self._output += self._window[: min(num_bytes, room)]
            self._is_cut = self._is_cut or num_bytes > room
            del self._window[:num_bytes]


def _parse_mark(words: bytes, output: bytes, is_cut: bool) -> Answer:
    match words.decode("ascii", "replace").split(" "):
        case ["hello", exact, spool, ledger, born]:
            return Hello(exact == "1", spool, ledger, born)
        case ["lacks", *tools]:
            return Lacks(tuple(tools))
        case ["end", command_id, code, kills, ("0" | "1") as cut] if code.isdigit() and kills.lstrip("-").isdigit():
            return Ended(command_id, int(code), int(kills), is_cut or cut == "1", output)
        case ["begin" | "resume", command_id]:
            return Begun(command_id)
        case ["unknown", command_id]:
            return Unknown(command_id)
        case ["refused", command_id]:
            return Refused(command_id)
        case ["ruined", command_id]:
            return Ruined(command_id)
        case ["dropped", command_id]:
            return Dropped(command_id)
        case ["lost", command_id]:
            return Lost(command_id)
    raise WireError(f"not a mark: {words[:80]!r}")


def _count_lines(text: str) -> int:
    return text.count("\n") + 1
