"""What all agents share that explore freely: a prompt, then turns until they end the attempt, and no script."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import ClassVar

from sweyard_sandbox.agents.loop import Act, Limits, converse
from sweyard_sandbox.agents.protocol import ChatSession, Message, ToolSession, Turn, has_no_script
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task


class FreeAgent(ABC):
    """One kind; see protocol.Agent."""

    type: ClassVar[str]
    """As `agent.type` names it."""

    def __init__(
        self, limits: Limits, *, step_timeout_seconds: float, shell: bool = False, native_calls: bool = False
    ) -> None:
        self.limits = limits
        self.step_timeout_seconds = step_timeout_seconds
        self.shell = shell
        """Has execute_bash, if it is one that need not."""
        self.native_calls = native_calls
        """Has its tools offered by the chat template, if it is one that can."""

    async def run(self, task: Task, session: ChatSession, sandbox: Sandbox) -> AsyncIterator[Turn]:
        """Prompt, then one call a turn."""
        act = self.act(task, sandbox)
        if tools := self.offered():
            assert isinstance(session, ToolSession), "gateways offer tools"
            session = session.offering(tools)
        async for turn in converse(self.first_messages(task), session, act, self.limits, self.remind):
            yield turn

    def remind(self, turns_left: int) -> str:
        """What each observation ends with."""
        return ""

    def offered(self) -> str:
        """JSON text of the tools that the chat template is to tell of; empty where the prompt does."""
        return ""

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        """There is no script for free exploration."""
        raise has_no_script(self.type)

    @abstractmethod
    def first_messages(self, task: Task) -> list[Message]:
        """System and user message."""

    @abstractmethod
    def act(self, task: Task, sandbox: Sandbox) -> Act:
        """How a reply is carried out in `sandbox`."""
