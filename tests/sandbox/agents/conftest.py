"""A scripted model, and a real local sandbox with a small repository."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from sweyard_sandbox.agents.protocol import FinishReason, Message, Reply
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.diff import unified_diff
from sweyard_sandbox.tasks.task import Task

CLEAN = "def shorter(a, b):\n    if len(a) < len(b) and a:\n        return a\n    return b | a\n"
BROKEN = CLEAN.replace("and", "or")


class ScriptedSession:
    """Says the given replies in turn; records what it was shown. A reply of None hits the token limit."""

    def __init__(self, replies: Sequence[str | None]) -> None:
        self.replies = list(replies)
        self.shown: list[list[Message]] = []

    async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
        self.shown.append(messages)
        reply = self.replies.pop(0)
        if reply is None:
            return Reply("", FinishReason.LENGTH, 0)
        return Reply(reply, FinishReason.STOP, len(reply))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (tmp_path / "tree" / "pkg").mkdir(parents=True)
    (tmp_path / "tree" / "pkg" / "text.py").write_text(CLEAN)
    return Task(
        id="pkg-1",
        repository="pkg",
        image=f"dir:{tmp_path / 'tree'}",
        working_directory="/testbed",
        problem_statement="It returns the longer one.",
        gold_patch=unified_diff("pkg/text.py", BROKEN, CLEAN),
        setup_patch=unified_diff("pkg/text.py", CLEAN, BROKEN),
        fail_to_pass=("tests/test_text.py::test_shorter",),
        context={
            "path": "pkg/text.py",
            "function": "shorter",
            "line": 2,
            "lines": [[1, "def shorter(a, b):"], [2, "    if len(a) < len(b) or a:"], [3, "        return a"]],
        },
    )


@pytest_asyncio.fixture
async def sandbox(task: Task) -> AsyncIterator[Sandbox]:
    runtime = LocalRuntime()
    async with await runtime.acquire(task.image, deadline_seconds=10.0) as acquired:
        await acquired.write("/testbed/pkg/text.py", BROKEN.encode())
        yield acquired
    await runtime.close()
