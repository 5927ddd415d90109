"""A server that answers as an API server does about one run, and whose pods are directories of this machine."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from sweyard_api.constants import STORAGE_MOUNT_PATH
from sweyard_cli.fetch.lender import LENDER
from sweyard_cli.fetch.receiving import READ

STDIN, STDOUT, STDERR, ERROR = 0, 1, 2, 3
"""Channels of v4.channel.k8s.io."""
CONTAINER = {"name": LENDER, "image": "trainer:1", "imageID": "", "ready": False, "restartCount": 0}
RUNNING = {"phase": "Running", "containerStatuses": [{**CONTAINER, "state": {"running": {}}}]}
WAITING = {"phase": "Pending", "containerStatuses": [{**CONTAINER, "state": {"waiting": {"reason": "Creating"}}}]}
TRAINER = {
    "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "runAsNonRoot": True},
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"gpu": "yes"},
    "containers": [{"name": "trainer", "image": "trainer:1"}],
}


def status(code: int, message: str) -> web.Response:
    body = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message, "code": code}
    return web.json_response(body, status=code)


def listed(kind: str, items: list[Any]) -> web.Response:
    return web.json_response({"kind": f"{kind}List", "apiVersion": "v1", "metadata": {}, "items": items})


@dataclass
class ClusterOfOneRun:
    """What it has may be changed between requests; what was asked for is kept."""

    volume: Path
    run: dict[str, Any] | None = field(default_factory=lambda: {"status": {"phase": "Succeeded"}})
    storage: dict[str, Any] = field(default_factory=dict)
    claim: dict[str, Any] | None = field(default_factory=lambda: {"accessModes": ["ReadWriteMany"]})
    trainers: list[dict[str, Any]] = field(default_factory=lambda: [TRAINER])
    others: list[dict[str, Any]] = field(default_factory=list)
    """Pods of others."""
    pod_status: dict[str, Any] = field(default_factory=lambda: RUNNING)
    events: list[dict[str, Any]] = field(default_factory=list)
    refuses_pods: str = ""
    most_bytes: int | None = None
    """After so many of a stream the connection breaks off."""
    made: list[dict[str, Any]] = field(default_factory=list)
    """Pods, as they were asked for."""
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    """That there are."""
    sent: list[str] = field(default_factory=list)
    """Names of files that were asked for."""

    async def get_run(self, request: web.Request) -> web.Response:
        if self.run is None:
            return status(404, 'trainingruns.sweyard.dev "tiny" not found')
        metadata = {"name": "tiny", "namespace": "n", "uid": "of-the-run"}
        return web.json_response({"kind": "TrainingRun", "metadata": metadata, "spec": {}, **self.run})

    async def list_runs(self, request: web.Request) -> web.Response:
        return listed("TrainingRun", [])

    async def get_config(self, request: web.Request) -> web.Response:
        data = {"config.yaml": json.dumps({"mode": "rl", "storage": self.storage})}
        return web.json_response({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}, "data": data})

    async def list_jobs(self, request: web.Request) -> web.Response:
        jobs = [
            {"metadata": {"creationTimestamp": f"2026-01-0{day}T00:00:00Z"}, "spec": {"template": {"spec": spec}}}
            for day, spec in enumerate(self.trainers, 1)
        ]
        return listed("Job", jobs)

    async def get_claim(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if self.claim is None:
            return status(404, f'persistentvolumeclaims "{name}" not found')
        return web.json_response({"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": self.claim})

    async def list_pods(self, request: web.Request) -> web.Response:
        return listed("Pod", self.others)

    async def make_pod(self, request: web.Request) -> web.Response:
        pod = await request.json()
        if self.refuses_pods:
            return status(403, self.refuses_pods)
        self.made.append(pod)
        self.pods[pod["metadata"]["name"]] = pod
        return web.json_response(pod, status=201)

    async def get_pod(self, request: web.Request) -> web.Response:
        return web.json_response({**self.pods[request.match_info["name"]], "status": self.pod_status})

    async def delete_pod(self, request: web.Request) -> web.Response:
        pod = self.pods.pop(request.match_info["name"], None)
        return web.json_response(pod) if pod else status(404, "pods not found")

    async def list_events(self, request: web.Request) -> web.Response:
        return listed("Event", self.events)

    async def execute(self, request: web.Request) -> web.WebSocketResponse:
        """The command that is asked for, on this machine, beside the volume."""
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        command = [str(self.volume) if word == STORAGE_MOUNT_PATH else word for word in request.query.getall("command")]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdin
        assert process.stdout
        assert process.stderr
        taking = asyncio.create_task(self._take_input(socket, process.stdin))
        total = 0
        while said := await process.stdout.read(10_000):
            total += len(said)
            if self.most_bytes is not None and command[2] == READ and total > self.most_bytes:
                process.kill()
                taking.cancel()
                await process.communicate()
                assert request.transport is not None
                request.transport.abort()
                return socket
            await socket.send_bytes(bytes([STDOUT]) + said)
        complaint, code = await process.stderr.read(), await process.wait()
        taking.cancel()
        causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
        end = {"status": "Failure", "details": causes} if code else {"status": "Success"}
        with contextlib.suppress(ConnectionError):
            await socket.send_bytes(bytes([STDERR]) + complaint)
            await socket.send_bytes(bytes([ERROR]) + json.dumps(end).encode())
            await socket.close()
        return socket

    async def _take_input(self, socket: web.WebSocketResponse, stdin: asyncio.StreamWriter) -> None:
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[0] == STDIN:
                self.sent += message.data[1:].decode().split()
                stdin.write(message.data[1:])

    @contextmanager
    def served(self) -> Iterator[str]:
        """Its address."""
        app, core = web.Application(), "/api/v1/namespaces/n"
        runs = "/apis/sweyard.dev/v1alpha1"
        app.add_routes(
            [
                web.get(f"{runs}/namespaces/n/trainingruns/{{name}}", self.get_run),
                web.get(f"{runs}/trainingruns", self.list_runs),
                web.get(f"{core}/configmaps/tiny-config", self.get_config),
                web.get("/apis/batch/v1/namespaces/n/jobs", self.list_jobs),
                web.get(f"{core}/persistentvolumeclaims/{{name}}", self.get_claim),
                web.get(f"{core}/pods", self.list_pods),
                web.post(f"{core}/pods", self.make_pod),
                web.get(f"{core}/pods/{{name}}", self.get_pod),
                web.delete(f"{core}/pods/{{name}}", self.delete_pod),
                web.get(f"{core}/pods/{{name}}/exec", self.execute),
                web.get(f"{core}/events", self.list_events),
            ]
        )
        loop = asyncio.new_event_loop()
        runner = web.AppRunner(app, shutdown_timeout=1)
        loop.run_until_complete(runner.setup())
        loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
