"""Doors into a gateway of this process, one within each sandbox whose agent is a program of its own.

A local sandbox has a network of its own, with nothing in it. The door is a socket in there, served from here: the agent
reaches the gateway by it and nothing else.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import uvicorn

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.runtime import ListensInside, Sandbox
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.public_app import public_app


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are this process's own."""
        yield


class SandboxDoors:
    """By session."""

    def __init__(self, gateway: Gateway) -> None:
        self._app = public_app(gateway)
        self._open: dict[str, tuple[_Server, asyncio.Task[None]]] = {}

    async def open(self, session_id: str, sandbox: Sandbox) -> str:
        """URL within the sandbox. Raises InfrastructureError for a sandbox that has no network of this kind."""
        if not isinstance(sandbox, ListensInside):
            said = (
                f"sandbox {sandbox.id} cannot reach a gateway in this process: run `cli` agents on a cluster or locally"
            )
            raise InfrastructureError(FailureReason.ERROR, said)
        assert session_id not in self._open, "a session has one sandbox"
        listener = await sandbox.listen()
        port = listener.getsockname()[1]
        config = uvicorn.Config(self._app, log_level="warning", access_log=False, lifespan="off")
        server = _Server(config)
        self._open[session_id] = (server, asyncio.create_task(server.serve(sockets=[listener])))
        return f"http://127.0.0.1:{port}"

    async def close(self, session_id: str) -> None:
        """End its server, calls under way with it."""
        if (opened := self._open.pop(session_id, None)) is not None:
            server, task = opened
            server.should_exit = server.force_exit = True
            await task

    async def close_all(self) -> None:
        """Of every session."""
        await asyncio.gather(*(self.close(session_id) for session_id in list(self._open)))
