"""An attempt's session, looked on: what was said, and how long each part of the attempt took."""

import time
from dataclasses import dataclass, field

from sweyard_sandbox.agents.protocol import ChatSession, Endpoint, Message, ReachableSession, Reply, ToolSession
from sweyard_sandbox.runtime import Sandbox


@dataclass(frozen=True, slots=True)
class Interval:
    """One part of an attempt, once. Times by time.monotonic."""

    name: str
    began: float
    ended: float


@dataclass(slots=True)
class Timings:
    """Seconds spent, over all tries; and each try's, `model` ones within `sandbox` ones."""

    seconds: dict[str, float] = field(
        default_factory=lambda: {"claim": 0.0, "model": 0.0, "sandbox": 0.0, "grading": 0.0, "total": 0.0}
    )
    intervals: list[Interval] = field(default_factory=list)

    def add(self, name: str, since: float) -> None:
        now = time.monotonic()
        self.seconds[name] += now - since
        self.intervals.append(Interval(name, since, now))


class ObservedSession:
    """A ChatSession that remembers the conversation as people read it, and how long the model took."""

    def __init__(self, session: ChatSession, timings: Timings) -> None:
        self._session = session
        self._timings = timings
        self.messages: list[Message] = []

    async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
        """See ChatSession."""
        began = time.monotonic()
        try:
            reply = await self._session.chat(messages, max_tokens=max_tokens)
        finally:
            self._timings.add("model", began)
        self.messages = [*messages, Message("assistant", reply.content)]
        return reply

    def offering(self, tools: str) -> ChatSession:
        """See ToolSession; it is looked on all the same."""
        assert isinstance(self._session, ToolSession), "gateways offer tools"
        self._session = self._session.offering(tools)
        return self


class ReachableObservedSession(ObservedSession):
    """The same of a session that programs in a sandbox call themselves; what they say is in its record alone."""

    def __init__(self, session: ReachableSession, timings: Timings) -> None:
        super().__init__(session, timings)
        self._reachable = session

    async def endpoint(self, sandbox: Sandbox) -> Endpoint:
        """See ReachableSession."""
        return await self._reachable.endpoint(sandbox)


def observed(session: ChatSession, timings: Timings) -> ObservedSession:
    """`session`, looked on."""
    if isinstance(session, ReachableSession):
        return ReachableObservedSession(session, timings)
    return ObservedSession(session, timings)
