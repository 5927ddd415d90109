"""What keeps a container: its main process reads from us, and ends when we are gone, however we ended."""

import asyncio

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.runtimes.docker.process_channel import end

READS_UNTIL_THE_END = "echo held; while read -r _; do :; done"
"""Of a POSIX shell, as the container's command."""


class Holder:
    """The engine's client that holds the standard input of a container's main process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, program: str, container: str) -> "Holder":
        """Start a container that was created with --interactive. Raises InfrastructureError with what was said.

        Whoever gives up meanwhile removes the container, with which the client ends by itself.
        """
        pipe = asyncio.subprocess.PIPE
        words = ("start", "--attach", "--interactive", container)
        process = await asyncio.create_subprocess_exec(program, *words, stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdout is not None
        if await process.stdout.readline() != b"held\n":
            _, problem = await process.communicate()
            said = problem.decode("utf-8", "replace").strip()
            raise InfrastructureError(FailureReason.ERROR, f"{program} start: {said or 'its shell ended at once'}")
        return cls(process)

    async def let_go(self) -> None:
        """End the container, if it lives; it is not removed."""
        await end(self._process)
