"""The tool `pdb`: a session that is started anew after edits, with breakpoints that follow them."""

from dataclasses import replace

from sweyard_sandbox.agents.debugger.breakpoints import Breakpoint, follow, parse_list
from sweyard_sandbox.agents.debugger.entrypoint import BREAKS, MOVES, QUITS, checked, debugged
from sweyard_sandbox.agents.debugger.session import DebuggerSession, Said
from sweyard_sandbox.agents.tools.arguments import Arguments, ToolError, required
from sweyard_sandbox.agents.tools.observation import shorten
from sweyard_sandbox.runtime import Sandbox

LIST_HERE, LIST_BREAKPOINTS = "l .", "b"


class Debugger:
    """One attempt's debugger."""

    def __init__(self, sandbox: Sandbox, working_directory: str, *, timeout_seconds: float) -> None:
        self.sandbox = sandbox
        self.working_directory = working_directory
        self.timeout_seconds = timeout_seconds
        self.entrypoint = ""
        self.session: DebuggerSession | None = None
        self.breakpoints: tuple[Breakpoint, ...] = ()
        self.texts: dict[str, list[str]] = {}
        """Lines of the files with breakpoints, as they were when those were set."""

    async def __call__(self, arguments: Arguments) -> str:
        """Carry out `command`; start or restart first where needed. Raises ToolError with words for the model."""
        entrypoint = arguments.get("entrypoint", "").strip() or self.entrypoint
        if not entrypoint:
            raise ToolError("parameter `entrypoint` is missing; the first call must say what to debug")
        program = debugged(entrypoint)
        numbers = [each.number for each in self.breakpoints]
        command = checked(required(arguments, "command"), self.working_directory, numbers)
        notes = await self._ready(entrypoint, program)
        if self.session is None:
            return "\n".join(notes)
        return shorten("\n".join([*notes, *await self._carry_out(command)]))

    async def _ready(self, entrypoint: str, program: str) -> list[str]:
        """Have a session of `entrypoint` that runs the code as it now is; what was done for that, in words."""
        if self.session is None:
            why = "started"
        elif entrypoint != self.entrypoint:
            why = "started with another entrypoint"
        elif await self.session.changed_sources():
            why = "restarted, since files were changed"
        else:
            return []
        if self.session is not None:
            await self.session.stop()
        moved = await self._follow_edits()
        self.entrypoint = entrypoint
        self.session = await DebuggerSession.start(self.sandbox, program)
        disable = [f"disable {number}" for number, each in enumerate(moved, 1) if not each.enabled]
        said = await self.session.say(
            "", *(each.command for each in moved), *disable, timeout_seconds=self.timeout_seconds
        )
        if said.ended or said.timed_out:
            return [f"[the debugger was {why}]", *self._over(said)]
        told = [f"[the debugger was {why}]", said.answers[0]]
        if self.breakpoints:
            before = len(self.breakpoints)
            await self._read_breakpoints()
            await self._disable({(each.path, each.line) for each in moved if not each.enabled})
            told.append(f"[{len(self.breakpoints)} of {before} breakpoints are set again; `b` lists them]")
        return told

    async def _carry_out(self, command: str) -> list[str]:
        word = command.split(" ", 1)[0]
        more = [LIST_HERE] if word in MOVES else []
        said = await self._say(command, *more)
        if said.ended and word in QUITS:
            self.session = None
            return ["[the debugger has quit; breakpoints are kept]"]
        if said.ended or said.timed_out:
            return self._over(said)
        if word in BREAKS:
            await self._read_breakpoints()
        return [answer for answer in said.answers if answer] or ["[no output]"]

    async def _say(self, *commands: str) -> Said:
        assert self.session is not None, "made ready before"
        return await self.session.say(*commands, timeout_seconds=self.timeout_seconds)

    def _over(self, said: Said) -> list[str]:
        """The session is gone; breakpoints stay for the next."""
        self.session = None
        why = f"was stopped after {self.timeout_seconds:g} s" if said.timed_out else "has ended"
        return [*said.answers, f"[the debugger {why}; your next call starts it again, breakpoints are kept]"]

    async def _read_breakpoints(self) -> None:
        said = await self._say(LIST_BREAKPOINTS)
        self.breakpoints = parse_list("\n".join(said.answers))
        paths = {each.path for each in self.breakpoints}
        self.texts = {path: await self._lines(path) for path in sorted(paths)}

    async def _disable(self, places: set[tuple[str, int]]) -> None:
        numbers = [str(each.number) for each in self.breakpoints if (each.path, each.line) in places]
        if numbers:
            await self._say(f"disable {' '.join(numbers)}")
            await self._read_breakpoints()

    async def _follow_edits(self) -> list[Breakpoint]:
        """Breakpoints where their lines now are; those whose lines are gone are left out."""
        now = {path: await self._lines(path) for path in self.texts}
        moved = []
        for each in self.breakpoints:
            line = follow(each.line, self.texts[each.path], now[each.path])
            if line is not None:
                moved.append(replace(each, line=line))
        return moved

    async def _lines(self, path: str) -> list[str]:
        try:
            return (await self.sandbox.read(path)).decode("utf-8", "replace").split("\n")
        except OSError:
            return []  # its breakpoints go with it
