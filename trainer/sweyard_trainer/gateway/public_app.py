"""The port that sandboxes reach: OpenAI chat completions, authorised by a session's own token."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sweyard_sandbox.errors import InfrastructureError
from sweyard_trainer.engine.engine import EngineUnfitError
from sweyard_trainer.gateway.gateway import Answer, Gateway, SessionUnknownError
from sweyard_trainer.gateway.openai import (
    BadRequestError,
    ChatRequest,
    completion_body,
    error_body,
    parse_request,
    stream_events,
)

KEEPALIVE_SECONDS = 10.0
"""A silent stream is cut by what stands between; a comment line keeps it open."""
MODEL_NAME = "policy"


def public_app(gateway: Gateway) -> Starlette:
    """Routes of the public port."""
    numbers = itertools.count()

    async def chat(request: Request) -> Response:
        try:
            session_id = gateway.session_of_token(_bearer(request))
            asked = parse_request(await request.body())
            messages = [message.message() for message in asked.messages]
        except SessionUnknownError as error:
            return JSONResponse(error_body(str(error.args[0]), "authentication_error"), 401)
        except BadRequestError as error:
            return JSONResponse(error_body(str(error), "invalid_request_error", param=error.param), 400)
        answer = asyncio.ensure_future(gateway.chat(session_id, messages, max_tokens=asked.reply_limit))
        completion_id = f"chatcmpl-{next(numbers)}"
        if asked.stream:
            return StreamingResponse(_stream(completion_id, asked, answer), media_type="text/event-stream")
        try:
            body = completion_body(completion_id, asked.model or MODEL_NAME, int(time.time()), await answer)
        except (InfrastructureError, EngineUnfitError, SessionUnknownError) as error:
            return JSONResponse(_failure(error), 401 if isinstance(error, SessionUnknownError) else 503)
        return JSONResponse(body)

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL_NAME, "object": "model", "owned_by": "sweyard"}]})

    async def healthy(request: Request) -> Response:
        return JSONResponse({"weight_version": gateway.weight_version})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models, methods=["GET"]),
            Route("/healthz", healthy, methods=["GET"]),
        ]
    )


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


async def _stream(completion_id: str, asked: ChatRequest, answer: "asyncio.Future[Answer]") -> AsyncIterator[str]:
    while not answer.done():
        await asyncio.wait([answer], timeout=KEEPALIVE_SECONDS)
        if not answer.done():
            yield ": waiting\n\n"
    try:
        events = stream_events(completion_id, asked.model or MODEL_NAME, int(time.time()), answer.result())
    except (InfrastructureError, EngineUnfitError, SessionUnknownError) as error:
        events = [f"data: {json.dumps(_failure(error))}\n\n"]
    for event in events:
        yield event


def _failure(error: Exception) -> dict[str, object]:
    code = "engine_unfit" if isinstance(error, EngineUnfitError) else "engine_unavailable"
    return error_body(str(error.args[0]), "server_error", code=code)
