"""/healthz, /readyz and /metrics on one port."""

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from sweyard_operator.context import Operator

MAX_WATCH_SILENCE_SECONDS = 180.0
"""Two bookmarks missed and a reconnect that did not work."""
MAX_PASS_SECONDS = 600.0


def find_troubles(operator: Operator) -> list[str]:
    """Why this process should be restarted; empty while it is well.

    An API server that is away is no reason: a restart would not bring it back, and would lose what is known.
    """
    troubles = []
    plural, silent_seconds = operator.caches.most_silent()
    is_connected = operator.cluster.contact.silent_seconds() < MAX_WATCH_SILENCE_SECONDS / 2
    if is_connected and operator.caches.is_synced() and silent_seconds > MAX_WATCH_SILENCE_SECONDS:
        troubles.append(f"the watch of {plural} has been silent for {silent_seconds:.0f} s")
    pass_seconds = operator.queue.longest_pass_seconds()
    if pass_seconds > MAX_PASS_SECONDS:
        troubles.append(f"a pass has been at work for {pass_seconds:.0f} s")
    return troubles


def _application(operator: Operator) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        troubles = find_troubles(operator)
        return web.Response(status=503 if troubles else 200, text="\n".join(troubles) or "ok")

    async def readyz(_: web.Request) -> web.Response:
        is_ready = operator.is_leading.is_set() and operator.caches.is_synced()
        return web.Response(status=200 if is_ready else 503, text="ok" if is_ready else "not leading or not synced")

    async def metrics(_: web.Request) -> web.Response:
        operator.metrics.queue_depth.set(operator.queue.depth())
        operator.metrics.watch_silence.set(operator.caches.most_silent()[1])
        body = generate_latest(operator.metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return application


async def start_endpoints(operator: Operator) -> web.AppRunner:
    """Serve on the settings' host and port; `cleanup()` of the result ends it."""
    runner = web.AppRunner(_application(operator), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, operator.settings.http_host, operator.settings.http_port).start()
    return runner
