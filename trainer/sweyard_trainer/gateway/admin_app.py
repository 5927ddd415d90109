"""The port that only trainer pods reach: sessions, and which engines serve which weights."""

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sweyard_trainer.engine.engine import Engine, EngineError, EngineUnfitError
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.session import SessionUnknownError
from sweyard_trainer.gateway.wire import encode_record


class NewSession(BaseModel):
    """Body of POST /sessions."""

    model_config = ConfigDict(extra="forbid")
    id: str
    token: str
    temperature: float
    seed: int
    weight_version: int
    """What replies are to be sampled with, or newer, if another worker told it first; an older one is answered 409."""


class FinishSession(BaseModel):
    """Body of POST /sessions/finish."""

    model_config = ConfigDict(extra="forbid")
    id: str


class UseWeights(BaseModel):
    """Body of PUT /weights."""

    model_config = ConfigDict(extra="forbid")
    version: int
    engines: list[str]
    """Base URLs."""
    ending: list[str] = []
    """Base URLs of those that are to begin no reply any more, and to end those under way."""
    lineage: str = ""
    """Life of the run that trained this version."""


def admin_app(gateway: Gateway, make_engine: Callable[[str], Engine]) -> Starlette:
    """Routes of the admin port. `make_engine` makes the client of one URL; clients are kept."""
    engines: dict[str, Engine] = {}
    registry, observe = _metrics(gateway)

    async def create(request: Request) -> Response:
        asked = NewSession.model_validate_json(await request.body())
        if gateway.weight_version < asked.weight_version or not gateway.has_engines:
            return JSONResponse({"weight_version": gateway.weight_version}, 409)
        gateway.create_session(asked.id, asked.token, temperature=asked.temperature, seed=asked.seed)
        return JSONResponse({}, 201)

    async def finish(request: Request) -> Response:
        asked = FinishSession.model_validate_json(await request.body())
        record = gateway.finish_session(asked.id)
        return JSONResponse(await asyncio.to_thread(encode_record, record))

    async def use_weights(request: Request) -> Response:
        asked = UseWeights.model_validate_json(await request.body())
        for url in asked.engines:
            if url not in engines:
                engines[url] = make_engine(url)
        ending = [engines[url].name for url in asked.ending if url in engines]
        chosen = [engines[url] for url in asked.engines]
        confirmed = await gateway.use_engines(chosen, asked.version, asked.lineage, ending)
        return JSONResponse({"engines": confirmed})

    async def metrics(request: Request) -> Response:
        observe()
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    async def healthy(request: Request) -> Response:
        return JSONResponse({"weight_version": gateway.weight_version})

    return Starlette(
        routes=[
            Route("/sessions", create, methods=["POST"]),
            Route("/sessions/finish", finish, methods=["POST"]),
            Route("/weights", use_weights, methods=["PUT"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/healthz", healthy, methods=["GET"]),
        ],
        exception_handlers={
            ValidationError: _answer(422),
            SessionUnknownError: _answer(404),
            EngineUnfitError: _answer(424),
            EngineError: _answer(503),
            ValueError: _answer(409),
        },
    )


def _answer(status: int) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        message = str(error) if isinstance(error, ValidationError) else str(error.args[0])
        return JSONResponse({"message": message}, status)

    return answer


def _metrics(gateway: Gateway) -> tuple[CollectorRegistry, Callable[[], None]]:
    registry = CollectorRegistry()
    sessions = Gauge("sweyard_gateway_sessions", "Sessions under way", registry=registry)
    version = Gauge("sweyard_gateway_weight_version", "Weights that replies are sampled with", registry=registry)
    refused = Gauge("sweyard_gateway_refused_calls", "Calls with an unknown session or token", registry=registry)

    def observe() -> None:
        sessions.set(gateway.num_sessions)
        version.set(gateway.weight_version)
        refused.set(gateway.num_refused)

    return registry, observe
