"""A debugger that runs on in the sandbox between calls, its input a pipe and its output a file."""

import secrets
import shlex
from dataclasses import dataclass

from sweyard_sandbox.runtime import Sandbox

SETUP_TIMEOUT_SECONDS = 30.0
SEPARATOR = "\x1e"
PROMPT = "(Pdb) "
# The pipe is held open for reading and writing, so that no one waits for the other end. The wrapper says when the
# debugger has ended: a process that nobody has waited for yet looks alive.
START = """set -e
mkdir -m 700 {folder}
mkfifo {folder}/in
: >{folder}/out
touch {folder}/started
setsid sh -c 'echo $$ >{folder}/pid; exec 3<>{folder}/in; sh -c "exec $0" <&3 >{folder}/out 2>&1 3>&-
echo >{folder}/ended' {command} </dev/null >/dev/null 2>&1 &"""
SAY = """cd {folder} || exit 3
while IFS= read -r command; do
  before=0
  if [ "$command" ]; then before=$(wc -c <out); printf '%s\\n' "$command" >in; fi
  until [ "$(tail -c 6 out)" = "(Pdb) " ] && [ "$(wc -c <out)" -gt "$before" ]; do
    if [ -e ended ]; then tail -c +$((before + 1)) out; exit 3; fi
    sleep 0.05
  done
  tail -c +$((before + 1)) out
  printf '\\036'
done <<'{end}'
{commands}
{end}"""
ENDED = 3


@dataclass(frozen=True, slots=True)
class Said:
    """What the debugger answered."""

    answers: tuple[str, ...]
    """One a command, without the prompt; fewer if it ended or was stopped on the way."""
    ended: bool = False
    timed_out: bool = False


class DebuggerSession:
    """One process of pdb."""

    def __init__(self, sandbox: Sandbox, folder: str) -> None:
        self.sandbox = sandbox
        self.folder = folder

    @classmethod
    async def start(cls, sandbox: Sandbox, command: str) -> "DebuggerSession":
        """Run `command`, which is one of pdb, in the working directory. Its first words are the answer to ``."""
        session = cls(sandbox, f"/tmp/sweyard-pdb-{secrets.token_hex(8)}")
        script = START.format(folder=session.folder, command=shlex.quote(command))
        await sandbox.run(script, timeout_seconds=SETUP_TIMEOUT_SECONDS)
        return session

    async def say(self, *commands: str, timeout_seconds: float) -> Said:
        """Send commands, each after the answer to the one before. Stops the debugger if that takes too long."""
        script = SAY.format(folder=self.folder, commands="\n".join(commands), end=f"END-{secrets.token_hex(8)}")
        result = await self.sandbox.run(script, timeout_seconds=timeout_seconds)
        *answers, rest = result.text.split(SEPARATOR)
        if result.timed_out:
            rest = (
                await self.sandbox.run(f"tail -c 5000 {self.folder}/out", timeout_seconds=SETUP_TIMEOUT_SECONDS)
            ).text
            await self.stop()
        cut = [answer.removesuffix(PROMPT).rstrip("\n") for answer in (*answers, *([rest] if rest else []))]
        return Said(tuple(cut), result.exit_code == ENDED, result.timed_out)

    async def changed_sources(self) -> bool:
        """True if a module of Python below the working directory was written since the start."""
        find = f"find . -name '*.py' -newer {self.folder}/started -not -path './.git/*' | head -n 1"
        return bool((await self.sandbox.run(find, timeout_seconds=SETUP_TIMEOUT_SECONDS)).output.strip())

    async def stop(self) -> None:
        """Kill it with its children."""
        kill = f"kill -s KILL -- -$(cat {self.folder}/pid); rm -rf {self.folder}"
        await self.sandbox.run(kill, timeout_seconds=SETUP_TIMEOUT_SECONDS)
