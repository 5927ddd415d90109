"""The web application: every address that it answers, each with a plain value. It only reads."""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sweyard_cli.disk import told
from sweyard_cli.errors import UserError
from sweyard_cli.ui.assets import Asset, load_assets
from sweyard_cli.ui.attempt import read_attempt_view
from sweyard_cli.ui.attempt_wave import read_wave
from sweyard_cli.ui.guard import Guard
from sweyard_cli.ui.json_values import finite
from sweyard_cli.ui.news import stream_news
from sweyard_cli.ui.not_there import NotThereError
from sweyard_cli.ui.query import Query
from sweyard_cli.ui.recent import Recent
from sweyard_cli.ui.run_files import RunFiles
from sweyard_cli.ui.sources import Sources
from sweyard_cli.ui.text_search import TextSearch
from sweyard_cli.ui.tokens import read_tokens_view
from sweyard_sandbox.errors import SweyardError

NEWS_SECONDS = 1.0
_RUN = "/api/runs/{where}/{name}"


def make_app(
    sources: Sources,
    token: str | None,
    *,
    news_seconds: float = NEWS_SECONDS,
    num_readers: int = 1,
    is_ending: Callable[[], bool] = lambda: False,
) -> Starlette:
    """`token` None: whoever reaches it may look. Streams end soon after `is_ending`; nothing else would end them.

    `num_readers` files are searched at a time, whoever searches, and one attempt read.
    """
    assets, search = load_assets(), TextSearch(num_readers=num_readers)
    attempts = CapacityLimiter(1)
    stamps = Recent(sources.stamps, seconds=news_seconds / 2, clock=time.monotonic)

    async def health(request: Request) -> Response:
        """Without a thread of those that read: many long searches are no reason to start this process again."""
        return Response("ok\n", media_type="text/plain")

    async def news(request: Request) -> Response:
        told = stream_news(stamps, interval_seconds=news_seconds, is_ending=is_ending)
        return StreamingResponse(told, media_type="text/event-stream")

    def of_run(read: Callable[[RunFiles, Request], Any]) -> Callable[[Request], Response]:
        return answering(lambda request: read(sources.files(*_named(request)), request))

    def of_attempt(read: Callable[[RunFiles, str], Any]) -> Callable[[Request], Awaitable[Response]]:
        """Those that read a whole attempt take turns, and no thread that others need: one may be 100 MB."""
        endpoint = of_run(lambda files, request: read(files, _attempt_id(request)))

        async def in_turn(request: Request) -> Response:
            return await to_thread.run_sync(endpoint, request, limiter=attempts)

        return in_turn

    routes = [
        Route("/", lambda request: send_asset(request, assets["index.html"])),
        Route("/static/{path:path}", lambda request: send_asset(request, assets.get(request.path_params["path"]))),
        Route("/favicon.ico", lambda request: send_asset(request, assets["icon.svg"])),
        Route("/healthz", health),
        Route("/api/news", news),
        Route("/api/pools", answering(lambda _: sources.pools())),
        Route("/api/pools/{where}/{name}", answering(lambda request: sources.pool(*_named(request)))),
        Route("/api/caches", answering(lambda _: sources.caches())),
        Route("/api/runs", answering(lambda _: sources.runs())),
        Route(_RUN, answering(lambda request: sources.run(*_named(request)))),
        Route(f"{_RUN}/figures", of_run(lambda files, _: files.figures())),
        Route(f"{_RUN}/wave", of_run(lambda files, request: read_wave(files, request.query_params.get("label")))),
        Route(f"{_RUN}/attempts", of_run(lambda files, request: list_attempts(files, request, search))),
        Route(f"{_RUN}/attempt", of_attempt(read_attempt_view)),
        Route(f"{_RUN}/tokens", of_attempt(read_tokens_view)),
    ]
    middleware = [Middleware(Guard, token=token), Middleware(GZipMiddleware, minimum_size=2_000, compresslevel=5)]
    return Starlette(routes=routes, middleware=middleware)


def answering(read: Callable[[Request], Any]) -> Callable[[Request], Response]:
    """An endpoint of what `read` returns; it may block, so Starlette calls it in a thread."""

    def endpoint(request: Request) -> Response:
        try:
            return _json(_read_settled(read, request))
        except NotThereError as error:
            return _json({"error": str(error)}, 404)
        except (UserError, SweyardError) as error:
            return _json({"error": str(error)}, 400)
        except OSError as error:
            return _json({"error": told(error)}, 500)

    return endpoint


def _read_settled(read: Callable[[Request], Any], request: Request) -> Any:
    """A file that is gone between being found and being opened has just given way to another one."""
    try:
        return read(request)
    except FileNotFoundError:
        return read(request)


def list_attempts(files: RunFiles, request: Request, search: TextSearch) -> dict[str, Any]:
    """A page of a run's attempts, how many there are in all, and what one may ask for.

    A search that takes long answers with what it has; who asks again hears more, until all is `searched`.
    """
    query = Query.parse(request.query_params)
    everything = files.index.table()
    found, searched, unread = query.select(everything), 1.0, list(files.index.unread().values())
    if query.text:
        found, searched, untold = search.among(found, files.index.paths(holding=query.text), query.text)
        unread += untold
    counts = found["outcome"].value_counts().to_pylist()
    return {
        "rows": query.page(found),
        "count": found.num_rows,
        "searched": searched,
        "of": everything.num_rows,
        "outcomes": {entry["values"]: entry["counts"] for entry in counts},
        "labels": list(files.index.paths()),
        "unread": unread,
    }


def send_asset(request: Request, asset: Asset | None) -> Response:
    """A browser keeps it, and asks each time whether it is still the same."""
    if asset is None:
        raise HTTPException(404)
    headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)


def _json(value: Any, status: int = 200) -> Response:
    """ASCII: half of a surrogate pair, which a model may write, has no form in UTF-8."""
    return Response(json.dumps(finite(value), allow_nan=False), status, media_type="application/json")


def _named(request: Request) -> tuple[str, str]:
    return request.path_params["where"], request.path_params["name"]


def _attempt_id(request: Request) -> str:
    found = request.query_params.get("id")
    if found is None:
        raise UserError("say which attempt: ?id=...")
    return found
