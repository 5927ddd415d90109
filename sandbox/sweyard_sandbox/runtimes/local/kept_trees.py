"""Trees of many small files that live as long as a runtime: in memory where there is room, else on disk.

Removing 160 trees of 330 files took 7 to 40 s on disk, and less than a second in memory.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from sweyard_sandbox.errors import FailureReason, InfrastructureError

_MEMORY = Path("/dev/shm")
_NEEDED_BYTES = 2 << 30
"""Free in memory, for it to be used: containers often have 64 MB."""


class KeptTrees:
    """`make_folder` makes one below the given one, which others remove."""

    def __init__(self, make_folder: Callable[[str | None], Awaitable[str]]) -> None:
        self._make_folder = make_folder
        self.num_bytes = 0
        """Of all that was added."""
        self._folder: asyncio.Future[str] | None = None
        self._num_trees = 0

    async def add(self, packed: bytes) -> Path:
        """Unpack an archive of `tar`; where it is. Raises InfrastructureError."""
        if self._folder is None:
            self._folder = asyncio.ensure_future(self._make_folder(_memory_folder()))
        self._num_trees += 1
        name = str(self._num_trees)
        self.num_bytes += len(packed)
        tree = Path(await asyncio.shield(self._folder), name)
        tree.mkdir()
        unpacking = await asyncio.create_subprocess_exec(
            "tar", "-xpf", "-", "-C", str(tree), stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        _, said = await unpacking.communicate(packed)
        if unpacking.returncode != 0:
            raise InfrastructureError(FailureReason.ERROR, f"the tree cannot be unpacked: {said.decode()[-300:]}")
        return tree


def _memory_folder() -> str | None:
    """None for the system's usual one."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    free = os.statvfs(_MEMORY)
    return str(_MEMORY) if free.f_bavail * free.f_frsize >= _NEEDED_BYTES else None
