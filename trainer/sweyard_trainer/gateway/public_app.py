"""The port that sandboxes reach: chats in the dialects that agents speak, authorised by a session's own token.

A stream tells of a reply as it is sampled, and of its calls once they are whole. What was told stays: a reply that
breaks off goes on behind it, and where it cannot the stream ends with an error and nothing is recorded. Where tokens
have no texts of their own, or experts are to be replayed, which vLLM's streams do not tell of, a reply comes whole at
the end. What nobody waits for any more is not sampled further, and not recorded: no client knows of it.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.errors import InfrastructureError, SweyardError
from sweyard_trainer.engine.engine import EngineUnfitError
from sweyard_trainer.gateway.anthropic import Anthropic
from sweyard_trainer.gateway.dialect import MODEL_NAME, Answered, Asked, BadRequestError, Dialect, Events, ReturnedReply
from sweyard_trainer.gateway.gateway import Answer, Gateway, NoToolsError
from sweyard_trainer.gateway.openai import OpenAi
from sweyard_trainer.gateway.rendering import TemplateUnfitError
from sweyard_trainer.gateway.responses import Responses
from sweyard_trainer.gateway.session import SessionSpentError, SessionUnknownError

BODY_CAP_BYTES = 16_000_000
"""Of a request; a prompt of a million tokens has some 4 MB. Reading more would keep all other sessions waiting."""
KEEPALIVE_SECONDS = 10.0
"""A silent stream is cut by what stands between."""


class BodyTooLargeError(SweyardError, ValueError):
    """A request of more bytes than are read."""


STATUSES: tuple[tuple[type[Exception], int, str], ...] = (
    (SessionUnknownError, 401, "session_unknown"),
    (BodyTooLargeError, 413, "body_too_large"),
    (BadRequestError, 400, "bad_request"),
    (NoToolsError, 400, "no_tools"),
    (TemplateUnfitError, 400, "template_unfit"),
    (SessionSpentError, 403, "session_spent"),
    (EngineUnfitError, 503, "engine_unfit"),
    (InfrastructureError, 503, "engine_unavailable"),
)
"""Clients try again what is answered by 429 or 5xx, so a spent session is neither."""
FAILURES = tuple(kind for kind, _, _ in STATUSES)
Handler = Callable[[Request], Awaitable[Response]]


def public_app(gateway: Gateway) -> Starlette:
    """Routes of the public port."""

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL_NAME, "object": "model", "owned_by": "sweyard"}]})

    async def healthy(request: Request) -> Response:
        return JSONResponse({"weight_version": gateway.weight_version})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", _handler(gateway, OpenAi()), methods=["POST"]),
            Route("/v1/responses", _handler(gateway, Responses()), methods=["POST"]),
            Route("/v1/messages", _handler(gateway, Anthropic()), methods=["POST"]),
            Route("/v1/models", models, methods=["GET"]),
            Route("/healthz", healthy, methods=["GET"]),
        ]
    )


def _handler(gateway: Gateway, dialect: Dialect) -> Handler:
    numbers = itertools.count()

    async def handle(request: Request) -> Response:
        try:
            session_id = gateway.session_of_token(_token(request))
            asked = dialect.parse(await _body(request))
            messages = [_message(gateway, session_id, turn) for turn in asked.messages]
        except FAILURES as error:
            return _failed(dialect, error)
        heard = Heard() if asked.stream else None
        limit, tools, schemas = asked.reply_limit, asked.tools, asked.schemas
        chat = gateway.chat(session_id, messages, max_tokens=limit, tools=tools, schemas=schemas, listener=heard)
        answer = asyncio.ensure_future(chat)
        if heard is not None:
            # A stream that has begun can tell of a failure, but no longer by its status, which clients go by.
            await heard.more(answer, KEEPALIVE_SECONDS)
            if not (answer.done() and answer.exception()):
                events = _stream(dialect, next(numbers), asked, answer, heard)
                return StreamingResponse(events, media_type="text/event-stream")
        await _unless_gone(request, answer)
        if answer.cancelled():
            return Response()
        try:
            return JSONResponse(dialect.body(Answered(next(numbers), asked, await answer)))
        except FAILURES as error:
            return _failed(dialect, error)

    return handle


async def _body(request: Request) -> bytes:
    """Raises BodyTooLargeError as soon as it is, whatever its header says."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_CAP_BYTES:
            raise BodyTooLargeError(f"the request has more than {BODY_CAP_BYTES} bytes; send a shorter conversation")
    return bytes(body)


async def _unless_gone(request: Request, answer: "asyncio.Future[Answer]") -> None:
    """Wait for the answer; it is cancelled if the client leaves before."""
    leaving = asyncio.ensure_future(_leaves(request))
    waited: list[asyncio.Future[Any]] = [answer, leaving]
    try:
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not answer.done():
            answer.cancel()
            await asyncio.wait({answer})


async def _leaves(request: Request) -> None:
    """Until the client is gone; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _token(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else request.headers.get("x-api-key", "")


def _message(gateway: Gateway, session_id: str, turn: Message | ReturnedReply) -> Message:
    """As the gateway keeps it. Raises SessionUnknownError, NoToolsError."""
    return gateway.returned_reply(session_id, turn.content, turn.calls) if isinstance(turn, ReturnedReply) else turn


class Heard:
    """A Listener that keeps what was said until it is taken."""

    def __init__(self) -> None:
        self.num_prompt_tokens = 0
        self._pieces: list[str] = []
        self._news = asyncio.Event()

    def begins(self, num_prompt_tokens: int) -> None:
        """See Listener."""
        self.num_prompt_tokens = num_prompt_tokens

    def says(self, text: str) -> None:
        """See Listener."""
        self._pieces.append(text)
        self._news.set()

    async def more(self, answer: "asyncio.Future[Answer]", seconds: float) -> None:
        """Wait for that, or for the answer, so long at most."""
        news = asyncio.ensure_future(self._news.wait())
        waited: list[asyncio.Future[Any]] = [answer, news]
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()

    def take(self) -> str:
        """All that was said since."""
        self._news.clear()
        text = "".join(self._pieces)
        self._pieces.clear()
        return text


async def _stream(
    dialect: Dialect, number: int, asked: Asked, answer: "asyncio.Future[Answer]", heard: Heard
) -> AsyncIterator[str]:
    events = dialect.events(number, asked)
    num_told = 0
    try:
        for event in events.begin(heard.num_prompt_tokens):
            yield event
        while not answer.done():
            piece = heard.take()
            for event in events.text(piece) if piece else [dialect.keepalive]:
                yield event
            num_told += len(piece)
            await heard.more(answer, KEEPALIVE_SECONDS)
        for event in _last_events(dialect, events, num_told, number, asked, answer):
            yield event
    finally:
        answer.cancel()  # the client left; an answer that is there stays


def _last_events(
    dialect: Dialect, events: Events, num_told: int, number: int, asked: Asked, answer: "asyncio.Future[Answer]"
) -> list[str]:
    try:
        whole = answer.result()
    except FAILURES as error:
        return [f"data: {json.dumps(_told(dialect, error)[0])}\n\n"]
    rest = whole.content[num_told:]
    return [*(events.text(rest) if rest else []), *events.end(Answered(number, asked, whole))]


def _failed(dialect: Dialect, error: Exception) -> Response:
    body, status = _told(dialect, error)
    return JSONResponse(body, status)


def _told(dialect: Dialect, error: Exception) -> tuple[dict[str, object], int]:
    status, code = next((status, code) for kind, status, code in STATUSES if isinstance(error, kind))
    param = error.param if isinstance(error, BadRequestError) else None
    return dialect.error(str(error.args[0]), status, code, param), status
