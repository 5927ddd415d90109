"""A small API server that can lie: the pods, leases and config maps of one namespace, over real HTTP."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import Credentials, TokenSource
from sweyard_sandbox.pool.pool import pool_path

Lie = Callable[[web.Request], "web.Response | None"]


def status(code: int, reason: str = "", message: str = "") -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


class LyingApi:
    """Truth in `objects`; `lies` are asked first, each answer is given as it is."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.writes: list[str] = []
        self.lies: list[Lie] = []
        self.watchers: list[asyncio.Queue[dict[str, Any] | None]] = []
        self.num_lists = 0
        self.url = ""
        self.serve_exec: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        """Opens streams to sandboxes."""
        self.user: dict[str, Any] = {"username": "admin"}
        """Who asks, to the API server."""
        self._version = 0

    def put(self, path: str, value: dict[str, Any], *, tell: bool = True) -> dict[str, Any]:
        self._version += 1
        metadata = value.setdefault("metadata", {})
        kind = "MODIFIED" if path in self.objects else "ADDED"
        metadata.setdefault("name", path.rsplit("/", 1)[1])
        metadata.setdefault("uid", f"uid-{self._version}")
        metadata["resourceVersion"] = str(self._version)
        self.objects[path] = value
        if tell and "/pods/" in path:
            self.tell({"type": kind, "object": json.loads(json.dumps(value))})
        return value

    def remove(self, path: str) -> None:
        self._version += 1
        value = self.objects.pop(path)
        value["metadata"]["resourceVersion"] = str(self._version)
        if "/pods/" in path:
            self.tell({"type": "DELETED", "object": value})

    def tell(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        for queue in self.watchers:
            queue.put_nowait(event)

    def drop_watches(self) -> None:
        for queue in self.watchers:
            queue.put_nowait(None)

    def add_pod(
        self,
        name: str,
        *,
        image: str = "i:1",
        holder: str | None = "",
        ready: bool = True,
        phase: str = "Running",
        tell: bool = True,
        **metadata: Any,
    ) -> str:
        annotations = {} if holder is None else {"sweyard.dev/holder": holder}
        pod = {
            "metadata": {"name": name, "labels": {"sweyard.dev/pool": "p"}, "annotations": annotations, **metadata},
            "spec": {"containers": [{"name": "sandbox", "image": image}]},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
        }
        return str(self.put(f"/api/v1/namespaces/default/pods/{name}", pod, tell=tell)["metadata"]["uid"])

    def pod(self, name: str) -> dict[str, Any]:
        return self.objects[f"/api/v1/namespaces/default/pods/{name}"]

    def holders(self) -> dict[str, str]:
        pods = [value for path, value in self.objects.items() if "/pods/" in path]
        return {pod["metadata"]["name"]: pod["metadata"]["annotations"]["sweyard.dev/holder"] for pod in pods}

    def demand(self, holder: str) -> list[str] | None:
        found = self.objects.get(f"/api/v1/namespaces/default/configmaps/{holder}")
        return None if found is None else json.loads(found["data"]["demand.json"])["images"]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path}")
        for lie in self.lies:
            if (answer := lie(request)) is not None:
                return answer
        if request.path.endswith("/exec") and self.serve_exec is not None:
            return await self.serve_exec(request)
        if request.path.endswith("/selfsubjectreviews"):
            return web.json_response({"status": {"userInfo": self.user}}, status=201)
        if request.query.get("watch"):
            return await self._watch(request)
        body = json.loads(await request.read() or b"null")
        match request.method:
            case "POST":
                return self._create(request.path, body)
            case _ if request.method == "GET" and request.path.endswith("/pods"):
                self.num_lists += 1
                pods = [value for path, value in self.objects.items() if path.startswith(request.path + "/")]
                pods = [pod for pod in pods if is_selected(pod, request)]
                return web.json_response({"items": pods, "metadata": {"resourceVersion": str(self._version)}})
            case _ if request.path not in self.objects:
                return status(404, "NotFound", f"{request.path} not found")
            case "GET":
                return web.json_response(self.objects[request.path])
            case "PATCH" if "json-patch" in request.content_type:
                return self._json_patch(request.path, body)
            case "PATCH":
                return web.json_response(self.put(request.path, merge(self.objects[request.path], body)))
            case _:
                return self._delete(request.path, body)

    def _create(self, collection: str, body: dict[str, Any]) -> web.Response:
        path = f"{collection}/{body['metadata']['name']}"
        if path in self.objects:
            return status(409, "AlreadyExists")
        return web.json_response(self.put(path, body), status=201)

    def _json_patch(self, path: str, patch: list[dict[str, Any]]) -> web.Response:
        value = json.loads(json.dumps(self.objects[path]))
        for step in patch:
            *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
            target = value
            for part in parents:
                target = target[part]
            if step["op"] == "test" and target.get(last) != step["value"]:
                return status(422, "Invalid", "the server rejected our request due to an error in our request")
            target[last] = step["value"]
        return web.json_response(self.put(path, value))

    def _delete(self, path: str, body: dict[str, Any] | None) -> web.Response:
        wanted = ((body or {}).get("preconditions") or {}).get("uid")
        if wanted and wanted != self.objects[path]["metadata"]["uid"]:
            return status(409, "Conflict", "the UID in the precondition does not match")
        self.remove(path)
        return web.json_response({})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        since = int(request.query["resourceVersion"])
        for event in self.events:
            if int(event["object"]["metadata"]["resourceVersion"]) > since:
                queue.put_nowait(event)
        self.watchers.append(queue)
        try:
            while (told := await queue.get()) is not None:
                kind = told["type"] if is_selected(told["object"], request) else "DELETED"
                await response.write(json.dumps({**told, "type": kind}).encode() + b"\n")
        finally:
            self.watchers.remove(queue)
        return response


def is_selected(item: dict[str, Any], request: web.Request) -> bool:
    """By phase, the only field that is selected by here."""
    wanted = request.query.get("fieldSelector", "").removeprefix("status.phase=")
    return not wanted or item.get("status", {}).get("phase", wanted) == wanted


def merge(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: merge(old.get(key), value) for key, value in new.items()}}


@pytest.fixture
async def api() -> AsyncIterator[LyingApi]:
    made = LyingApi()
    made.put(pool_path("default", "p"), {"kind": "RolloutPool"})
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.handle)
    server = TestServer(app, shutdown_timeout=0.1)
    await server.start_server()
    made.url = str(server.make_url("")).rstrip("/")
    yield made
    made.drop_watches()
    await server.close()


@pytest.fixture
def credentials(api: LyingApi) -> Credentials:
    return Credentials(api.url, None, TokenSource(fixed="token"))


@pytest.fixture
async def client(credentials: Credentials) -> AsyncIterator[ApiClient]:
    made = ApiClient(credentials)
    yield made
    await made.close()


@pytest.fixture
def rng() -> random.Random:
    return random.Random(1)
