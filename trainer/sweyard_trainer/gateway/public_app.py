"""The port that sandboxes reach: chats in the dialects that agents speak, authorised by a session's own token.

A stream is for clients that want one: it brings each reply whole, after events that keep it open meanwhile. What was
told could not be taken back: an engine that dies or changes its weights in mid-reply is asked anew, and the calls of a
reply are read from all of it. Nor do vLLM's own streams tell which experts a token took.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.errors import InfrastructureError
from sweyard_trainer.engine.engine import EngineUnfitError
from sweyard_trainer.gateway.anthropic import Anthropic
from sweyard_trainer.gateway.dialect import MODEL_NAME, Answered, Asked, BadRequestError, Dialect, ReturnedReply
from sweyard_trainer.gateway.gateway import Answer, Gateway, NoToolsError, SessionSpentError, SessionUnknownError
from sweyard_trainer.gateway.openai import OpenAi

KEEPALIVE_SECONDS = 10.0
"""A silent stream is cut by what stands between."""
STATUSES: tuple[tuple[type[Exception], int, str], ...] = (
    (SessionUnknownError, 401, "session_unknown"),
    (BadRequestError, 400, "bad_request"),
    (NoToolsError, 400, "no_tools"),
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
            asked = dialect.parse(await request.body())
            messages = [_message(gateway, session_id, turn) for turn in asked.messages]
        except FAILURES as error:
            return _failed(dialect, error)
        answer = asyncio.ensure_future(
            gateway.chat(session_id, messages, max_tokens=asked.reply_limit, tools=asked.tools, schemas=asked.schemas)
        )
        if asked.stream:
            # A stream that has begun can tell of a failure, but no longer by its status, which clients go by.
            await asyncio.wait([answer], timeout=KEEPALIVE_SECONDS)
            if not (answer.done() and answer.exception()):
                return StreamingResponse(_stream(dialect, next(numbers), asked, answer), media_type="text/event-stream")
        try:
            return JSONResponse(dialect.body(Answered(next(numbers), asked, await answer)))
        except FAILURES as error:
            return _failed(dialect, error)

    return handle


def _token(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else request.headers.get("x-api-key", "")


def _message(gateway: Gateway, session_id: str, turn: Message | ReturnedReply) -> Message:
    """As the gateway keeps it. Raises SessionUnknownError, NoToolsError."""
    return gateway.returned_reply(session_id, turn.content, turn.calls) if isinstance(turn, ReturnedReply) else turn


async def _stream(dialect: Dialect, number: int, asked: Asked, answer: "asyncio.Future[Answer]") -> AsyncIterator[str]:
    while not answer.done():
        yield dialect.keepalive
        await asyncio.wait([answer], timeout=KEEPALIVE_SECONDS)
    try:
        events = dialect.events(Answered(number, asked, answer.result()))
    except FAILURES as error:
        events = [f"data: {json.dumps(_told(dialect, error)[0])}\n\n"]
    for event in events:
        yield event


def _failed(dialect: Dialect, error: Exception) -> Response:
    body, status = _told(dialect, error)
    return JSONResponse(body, status)


def _told(dialect: Dialect, error: Exception) -> tuple[dict[str, object], int]:
    status, code = next((status, code) for kind, status, code in STATUSES if isinstance(error, kind))
    param = error.param if isinstance(error, BadRequestError) else None
    return dialect.error(str(error.args[0]), status, code, param), status
