import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from sweyard_sandbox.agents.protocol import AgentEnd, ChatSession, FinishReason, Message, Reply, Turn
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.tasks.prepared import PreparedSandboxes
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import EngineError
from sweyard_trainer.gateway.session import SessionRecord
from sweyard_trainer.rollout.attempt import Workbench
from sweyard_trainer.rollout.plan import AttemptPlan


def make_task(name: str = "t") -> Task:
    return Task(
        id=name,
        repository="repo",
        image=f"image:{name}",
        working_directory="/testbed",
        problem_statement="broken",
        gold_patch="gold",
        fail_to_pass=("test",),
    )


@pytest.fixture(name="make_task")
def make_task_fixture() -> Callable[..., Task]:
    return make_task


@pytest.fixture
def make_plan() -> Callable[..., AttemptPlan]:
    return lambda name="t": AttemptPlan(f"1/{name}/0", f"1/{name}", make_task(name), 1.0, 7)


class CountedSandbox:
    def __init__(self, runtime: "CountingRuntime") -> None:
        self._runtime = runtime
        self.open = True

    async def close(self) -> None:
        self.open = False


class CountingRuntime:
    """Hands out sandboxes that only count; the first `failures` claims fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.sandboxes: list[CountedSandbox] = []
        self.announced: list[list[str]] = []

    async def acquire(self, image: str, *, deadline_seconds: float) -> Any:
        if self.failures > 0:
            self.failures -= 1
            raise InfrastructureError(FailureReason.EVICTED, "node pressure")
        self.sandboxes.append(CountedSandbox(self))
        return self.sandboxes[-1]

    async def announce(self, images: list[str]) -> None:
        self.announced.append(images)

    async def close(self) -> None:
        return None


class EchoSession:
    async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
        return Reply("reply", FinishReason.STOP, 1)


class SessionBook:
    """A gateway client that only counts sessions."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.opened: list[str] = []
        self.refusals_left = 0
        """So many times no engine serves."""
        self.failure = ""
        """Of each session's last call."""

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        return None

    async def open_session(self, session_id: str, *, temperature: float, seed: int) -> ChatSession:
        if self.refusals_left > 0:
            self.refusals_left -= 1
            raise EngineError("no engine serves")
        self.open.add(session_id)
        self.opened.append(session_id)
        return EchoSession()

    async def finish_session(self, session_id: str) -> SessionRecord:
        self.open.remove(session_id)
        return SessionRecord((), 0, False, failure=self.failure)

    async def close(self) -> None:
        return None


@dataclass
class ScriptedAgent:
    """Chats once, then does what `end` says: an AgentEnd, an exception, or waiting for ever."""

    end: AgentEnd | BaseException | str

    async def run(self, task: Task, session: ChatSession, sandbox: Any) -> AsyncIterator[Turn]:
        reply = await session.chat([Message("user", task.problem_statement)])
        if self.end == "hang":
            await asyncio.sleep(3600)
        if isinstance(self.end, BaseException):
            raise self.end
        if isinstance(self.end, AgentEnd):
            yield Turn(reply, end=self.end)

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        raise NotImplementedError


@dataclass
class Bench:
    """A Workbench and what was seen through it."""

    workbench: Workbench
    runtime: CountingRuntime
    sessions: SessionBook
    graded: list[str] = field(default_factory=list)


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    def make(end: Any, *, grades: list[Any] | None = None, failures: int = 0) -> Bench:
        runtime, sessions = CountingRuntime(failures), SessionBook()
        answers = list(grades or [Grade(official=True, strict=True)])
        graded: list[str] = []

        async def prepare(task: Task, sandbox: Any) -> None:
            assert sandbox.open

        async def extract(task: Task, sandbox: Any) -> str:
            assert sandbox.open
            return "patch"

        async def grade(task: Task, patch: str) -> Grade:
            graded.append(patch)
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, BaseException):
                raise answer
            assert isinstance(answer, Grade)
            return answer

        bench = Workbench(
            runtime, sessions, ScriptedAgent(end), PreparedSandboxes(runtime, prepare).acquire, extract, *[grade] * 3
        )
        return Bench(bench, runtime, sessions, graded)

    return make
