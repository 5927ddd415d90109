"""Gateway: sessions, engines, the weight version, and one reply at a time.

It sets the sampling parameters whatever a client asks: only then are the recorded logprobs those of the policy.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from sweyard_sandbox.agents.protocol import FinishReason, Message, Reply
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.engine.engine import Completion, Engine, EngineError, EngineUnfitError, OnTokens
from sweyard_trainer.gateway.conversation import Conversation, Opening
from sweyard_trainer.gateway.engine_set import EngineSet, confirming
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits, Session, SessionRecord, SessionUnknownError
from sweyard_trainer.gateway.shown_replies import Numbered
from sweyard_trainer.gateway.shown_text import ShownText
from sweyard_trainer.gateway.tool_calls import CallForm, Parsed, Schemas

LONG_CONVERSATION_CHARACTERS = 20_000
"""Conversations longer than this are tokenised beside the event loop, which other sessions wait for."""


class NoToolsError(SweyardError, ValueError):
    """Tools were offered to a model whose chat template has no form for calls."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply and what it was given to."""

    reply: Reply
    num_prompt_tokens: int
    content: str = ""
    """The reply as the client sees it: without its calls, if it was offered tools."""
    calls: tuple[Numbered, ...] = ()


class Listener(Protocol):
    """Who wants to hear of a reply before it is whole."""

    def begins(self, num_prompt_tokens: int) -> None:
        """Once, before the model is asked."""
        ...

    def says(self, text: str) -> None:
        """More of the content. All of it together is the beginning of the answer's, whose end may not be told here."""
        ...


class Gateway:
    """Answers chats by sampling from engines, and keeps every token. One event loop, no locks needed."""

    def __init__(
        self,
        renderer: ChatRenderer,
        limits: Limits,
        *,
        session_ttl_seconds: float = 86_400.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._renderer = renderer
        self._limits = limits
        self._session_ttl_seconds = session_ttl_seconds
        self._clock = clock
        self._engines = EngineSet()
        self._checked: set[str] = set()
        """Names of engines that were seen to return what training needs."""
        self._sessions: dict[str, Session] = {}
        self._by_token: dict[str, Session] = {}
        self.num_refused = 0
        """Calls with an unknown id or token."""

    @property
    def weight_version(self) -> int:
        """Version that replies are sampled with."""
        return self._engines.version

    @property
    def has_engines(self) -> bool:
        """False until engines have confirmed a version."""
        return bool(self._engines.engines)

    @property
    def num_sessions(self) -> int:
        """Sessions under way."""
        return len(self._sessions)

    async def use_engines(
        self, engines: Sequence[Engine], version: int, lineage: str = "", ending: Collection[str] = ()
    ) -> list[str]:
        """From now on sample from those of `engines` that confirm `version`; their names. EngineError if none does.

        Calls under way at engines that are not among them any more end with EngineError, unless their names are in
        `ending`. `lineage` goes into the prefix cache's salt: after a restart from a checkpoint a version is trained
        anew. Raises EngineUnfitError.
        """
        confirmed = await confirming(engines, version, self._checked)
        self._engines = self._engines.succeeded_by(version, f"weights-{lineage}-{version}", confirmed, ending)
        if not confirmed:
            names = ", ".join(engine.name for engine in engines)
            raise EngineError(f"none of the engines ({names}) serves weight version {version}")
        return [engine.name for engine in confirmed]

    def create_session(self, session_id: str, token: str, *, temperature: float, seed: int) -> None:
        """Begin an attempt. `token` is the secret that authorises its calls; ids and tokens are never used again."""
        if session_id in self._sessions or token in self._by_token:
            raise ValueError(f"session {session_id} exists already")
        self._drop_abandoned()
        conversation = Conversation(self._renderer)
        now = self._clock()
        session = Session(session_id, token, temperature, seed, conversation, self._limits, now, last_used=now)
        self._sessions[session_id] = session
        self._by_token[token] = session

    def finish_session(self, session_id: str) -> SessionRecord:
        """End an attempt and hand over its tokens; its token is worth nothing from here on."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            raise self._unknown(f"there is no session {session_id}")
        del self._by_token[session.token]
        return session.record()

    def session_of_token(self, token: str) -> str:
        """The session that `token` authorises. Raises SessionUnknownError."""
        session = self._by_token.get(token)
        if session is None:
            raise self._unknown("this token belongs to no running session")
        return session.id

    def returned_reply(self, session_id: str, content: str, calls: Sequence[Numbered]) -> Message:
        """An earlier reply, as a client of tools sends it back. Raises SessionUnknownError, NoToolsError."""
        text = self._session(session_id).shown.sampled_text(content, calls)
        if text is None:
            text = self._call_form().render(content, [call for _, call in calls]) if calls else content
        return Message("assistant", text)

    async def chat(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        tools: str = "",
        schemas: Schemas | None = None,
        listener: Listener | None = None,
    ) -> Answer:
        """Reply to `messages`; `tools` is the JSON text of those that are offered, `schemas` of their parameters.

        Raises EngineError, EngineUnfitError, TemplateUnfitError, SessionUnknownError, SessionSpentError, NoToolsError.
        """
        session = self._session(session_id)
        form = self._call_form() if tools else None
        session.spend(self._clock())
        opening = await self._open(session, messages, tools)
        session.spend(self._clock())  # calls that were sent at once have waited for one another's tokens
        if listener is not None:
            listener.begins(len(opening.prompt_ids))
        room = session.room(len(opening.prompt_ids), max_tokens)
        if room <= 0:
            session.truncated = True
            return Answer(Reply("", FinishReason.LENGTH, 0), len(opening.prompt_ids))
        try:
            completion = await self._sample(session, opening, room, self._telling(listener, form))
        except (EngineError, EngineUnfitError) as error:
            session.failure = error.message if isinstance(error, EngineError) else str(error)
            raise
        session.failure, session.asked = "", None
        reply = session.conversation.close(opening, completion)
        session.truncated |= completion.finish_reason is FinishReason.LENGTH
        parsed = form.parse(reply.content, schemas or {}) if form else Parsed(reply.content)
        calls = session.shown.number(parsed.calls)
        session.shown.remember(parsed.content, calls, reply.content)
        answer = Reply(reply.content, completion.finish_reason, len(completion.token_ids))
        return Answer(answer, len(opening.prompt_ids), parsed.content, calls)

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise self._unknown(f"there is no session {session_id}")
        return session

    def _call_form(self) -> CallForm:
        if self._renderer.call_form is None:
            raise NoToolsError("tools cannot be offered: this model's chat template has no form for their calls")
        return self._renderer.call_form

    async def _open(self, session: Session, messages: Sequence[Message], tools: str) -> Opening:
        if sum(len(message.content) for message in messages) > LONG_CONVERSATION_CHARACTERS:
            return await asyncio.to_thread(session.conversation.open, messages, tools)
        return session.conversation.open(messages, tools)

    def _telling(self, listener: Listener | None, form: CallForm | None) -> OnTokens | None:
        if listener is None or not self._renderer.tells_by_piece:
            return None
        shown = ShownText(self._renderer, form)

        def tell(token_ids: Sequence[int]) -> None:
            if piece := shown.take(token_ids):
                listener.says(piece)

        return tell

    async def _sample(
        self, session: Session, opening: Opening, max_tokens: int, on_tokens: OnTokens | None
    ) -> Completion:
        engines = self._engines
        engine = engines.choose(session.id)
        session.asked = engine
        seed = call_seed(session.seed, session.num_calls)
        session.num_calls += 1
        answer = engine.complete(
            opening.prompt_ids,
            max_tokens=max_tokens,
            temperature=session.temperature,
            stop_token_ids=self._renderer.stop_token_ids,
            seed=seed,
            cache_salt=engines.cache_salt,
            routing_from=opening.num_routed,
            on_tokens=on_tokens,
        )
        return await engines.unless_it_leaves(engine, answer)

    def _drop_abandoned(self) -> None:
        """Forget sessions whose trainer died before it could finish them."""
        oldest = self._clock() - self._session_ttl_seconds
        for session in [session for session in self._sessions.values() if session.last_used < oldest]:
            self.finish_session(session.id)

    def _unknown(self, message: str) -> SessionUnknownError:
        self.num_refused += 1
        return SessionUnknownError(message)


def call_seed(session_seed: int, call: int) -> int:
    """Seed of one reply: counter-based, so that it depends on nothing else that runs."""
    digest = hashlib.blake2b(f"{session_seed}/{call}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 2
