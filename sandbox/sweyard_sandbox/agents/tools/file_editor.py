"""View, create and change files; remembers each file's earlier texts so that edits can be undone."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from sweyard_sandbox.agents.tools.arguments import Arguments, ToolError, integer, required
from sweyard_sandbox.agents.tools.observation import shorten
from sweyard_sandbox.runtime import Result, Sandbox
from sweyard_sandbox.tasks.diff import unified_diff

COMMANDS = ("view", "create", "str_replace", "insert", "undo_edit")
SNIPPET_LINES = 4
SHELL_TIMEOUT_SECONDS = 30.0


class FileEditor:
    """One attempt's editor."""

    def __init__(self, sandbox: Sandbox, working_directory: str) -> None:
        self.sandbox = sandbox
        self.working_directory = working_directory
        self.earlier: dict[str, list[bytes]] = defaultdict(list)

    async def __call__(self, arguments: Arguments) -> str:
        """Carry out `command` on `path`. Raises ToolError with words for the model."""
        command = required(arguments, "command").strip()
        if command not in COMMANDS:
            raise ToolError(f"unknown command {command[:40]!r}; use one of {', '.join(COMMANDS)}")
        path = self._absolute(required(arguments, "path").strip())
        with told(path):
            answer: str = await getattr(self, f"_{command}")(path, arguments)
            return answer

    async def rewrite(self, arguments: Arguments) -> str:
        """Put `new_code` in the place of lines `start` to `end` of `path`, or of all of it. Raises ToolError."""
        path = self._absolute(required(arguments, "path").strip())
        new = required(arguments, "new_code")
        with told(path):
            if not arguments.get("start", "").strip():
                return await self._replace_all(path, _ended(new))
            lines = await self._lines(path)
            first = integer(arguments["start"], "start")
            last = integer(arguments.get("end", "").strip() or arguments["start"], "end")
            if not 1 <= first <= last <= len(lines):
                raise ToolError(f"`start` and `end` must be lines of the file, from 1 to {len(lines)}")
            return await self._replace_all(path, "\n".join([*lines[: first - 1], *_inner(new), *lines[last:]]))

    async def _replace_all(self, path: str, text: str) -> str:
        try:
            before = await self.sandbox.read(path)
        except FileNotFoundError:
            await self.sandbox.write(path, _encode(text))
            return f"{path} is created."
        await self._save(path, before, text)
        difference = unified_diff(path.lstrip("/"), before.decode("utf-8", "replace"), text)
        return shorten(f"{path} is changed:\n{difference}" if difference else f"{path} is as it was.")

    def _absolute(self, path: str) -> str:
        if not path or "\0" in path:
            raise ToolError("parameter `path` is empty or has a NUL character")
        return path if path.startswith("/") else f"{self.working_directory}/{path}"

    async def _view(self, path: str, arguments: Arguments) -> str:
        try:
            lines = await self._lines(path)
        except IsADirectoryError:
            return await self._list(path)
        first, last = _view_range(arguments.get("view_range", ""), len(lines))
        return shorten(_numbered(lines, first, last))

    async def _list(self, path: str) -> str:
        command = f"find {shlex.quote(path)} -maxdepth 2 -not -path '*/.*' -not -name __pycache__ | sort"
        return shorten((await self._shell(command)).text.rstrip())

    async def _shell(self, command: str) -> Result:
        return await self.sandbox.run(command, timeout_seconds=SHELL_TIMEOUT_SECONDS)

    async def _create(self, path: str, arguments: Arguments) -> str:
        text = required(arguments, "file_text")
        if (await self._shell(f"test -e {shlex.quote(path)}")).exit_code == 0:
            raise ToolError(f"{path} exists; change it with str_replace, or remove it first")
        await self.sandbox.write(path, _encode(_ended(text)))
        return f"{path} is created."

    async def _str_replace(self, path: str, arguments: Arguments) -> str:
        old, new = required(arguments, "old_str"), arguments.get("new_str", "")
        before = await self.sandbox.read(path)
        text = before.decode("utf-8", "surrogateescape")
        count = text.count(old) if old else 0
        if count != 1:
            where = "is empty" if not old else "does not occur" if count == 0 else f"occurs {count} times"
            raise ToolError(f"old_str {where} in {path}; give a text that occurs exactly once, with its white space")
        start = text.index(old)
        await self._save(path, before, text[:start] + new + text[start + len(old) :])
        return await self._shown(path, text.count("\n", 0, start) + 1, new.count("\n") + 1)

    async def _insert(self, path: str, arguments: Arguments) -> str:
        new = required(arguments, "new_str")
        at = integer(required(arguments, "insert_line"), "insert_line")
        before = await self.sandbox.read(path)
        lines = before.decode("utf-8", "surrogateescape").split("\n")
        if not 0 <= at <= len(lines):
            raise ToolError(f"insert_line must be between 0 and {len(lines)}; the text goes after that line")
        await self._save(path, before, "\n".join([*lines[:at], new.removesuffix("\n"), *lines[at:]]))
        return await self._shown(path, at + 1, new.count("\n") + 1)

    async def _undo_edit(self, path: str, arguments: Arguments) -> str:
        if not self.earlier[path]:
            raise ToolError(f"there is no edit of {path} to undo")
        await self._write(path, self.earlier[path].pop())
        return f"The last edit of {path} is undone."

    async def _save(self, path: str, before: bytes, text: str) -> None:
        await self._write(path, _encode(text))
        self.earlier[path].append(before)

    async def _write(self, path: str, data: bytes) -> None:
        """Change a file that exists; it stays executable if it was."""
        mode = (await self._shell(f"stat -c %a {shlex.quote(path)}")).text.strip()
        await self.sandbox.write(path, data, mode=int(mode, 8))

    async def _shown(self, path: str, line: int, num_lines: int) -> str:
        lines = await self._lines(path)
        last = min(len(lines), line + num_lines - 1 + SNIPPET_LINES)
        return shorten(f"{path} is changed:\n{_numbered(lines, max(1, line - SNIPPET_LINES), last)}")

    async def _lines(self, path: str) -> list[str]:
        data = await self.sandbox.read(path)
        if b"\0" in data:
            raise ToolError(f"{path} is not a text file")
        return data.decode("utf-8", "replace").split("\n")


@contextmanager
def told(path: str) -> Iterator[None]:
    """What goes wrong with a file, in words for the model. Raises ToolError."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(f"{path} does not exist") from None
    except NotADirectoryError:
        raise ToolError(f"a parent of {path} is a file") from None
    except IsADirectoryError:
        raise ToolError(f"{path} is a directory") from None
    except PermissionError:
        raise ToolError(f"{path} may not be read or written") from None
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def _ended(text: str) -> str:
    """The call syntax takes the last newline away; a text file ends with one."""
    return text if text.endswith("\n") or not text else f"{text}\n"


def _inner(text: str) -> list[str]:
    """Lines to put between others; none for an empty text."""
    return text.removesuffix("\n").split("\n") if text else []


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(f"{number:6}\t{lines[number - 1]}" for number in range(first, last + 1))


def _view_range(text: str, num_lines: int) -> tuple[int, int]:
    """`[first, last]`, -1 for the end; everything by default."""
    if not text.strip():
        return 1, num_lines
    match = re.fullmatch(r"\[?\s*(\d+)\s*,\s*(-?\d+)\s*\]?", text.strip())
    if match is None:
        raise ToolError("parameter `view_range` must be [first line, last line]")
    first, last = (integer(number, "view_range") for number in match.groups())
    last = num_lines if last == -1 else min(last, num_lines)
    if not 1 <= first <= last:
        raise ToolError(f"view_range must lie within the file's {num_lines} lines")
    return first, last
