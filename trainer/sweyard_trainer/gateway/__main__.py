"""`python -m sweyard_trainer.gateway --config FILE`: both ports in one process, on a cluster."""

import argparse
import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import uvicorn

from sweyard_api.constants import GATEWAY_ADMIN_PORT, GATEWAY_PORT, STORAGE_MOUNT_PATH
from sweyard_api.resolve import load_config
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.engine.engine import Engine
from sweyard_trainer.gateway.admin_app import admin_app
from sweyard_trainer.gateway.build import engine_for, gateway_for
from sweyard_trainer.gateway.public_app import public_app

SERVER_KEEP_ALIVE_SECONDS = 120
"""Longer than any client keeps an idle connection: a request must not meet the server's closing of it."""


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m sweyard_trainer.gateway", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="resolved config of the run")
    parser.add_argument("--port", type=int, default=GATEWAY_PORT, help="sandboxes reach this one")
    parser.add_argument("--admin-port", type=int, default=GATEWAY_ADMIN_PORT, help="trainer pods reach this one")
    parser.add_argument("--host", default="0.0.0.0")
    arguments = parser.parse_args()
    spec = load_config(arguments.config.read_text(encoding="utf-8"))
    storage = Path(os.environ.get("SWEYARD_STORAGE", STORAGE_MOUNT_PATH))
    asyncio.run(serve(spec, storage, arguments.host, arguments.port, arguments.admin_port, os.environ))


async def serve(
    spec: TrainingRunSpec, storage: Path, host: str, port: int, admin_port: int, environment: Mapping[str, str]
) -> None:
    """Both apps on one event loop; when one server ends, so does the other."""
    gateway = gateway_for(spec, storage / "model")

    def make_engine(url: str) -> Engine:
        return engine_for(spec, url, environment.get("SWEYARD_ENGINE_API_KEY"), storage / "model")

    ports = [(public_app(gateway), port), (admin_app(gateway, make_engine), admin_port)]
    servers = [
        uvicorn.Server(
            uvicorn.Config(
                app,
                host=host,
                port=number,
                log_level="warning",
                access_log=False,
                timeout_keep_alive=SERVER_KEEP_ALIVE_SECONDS,
            )
        )
        for app, number in ports
    ]
    tasks = [asyncio.create_task(server.serve()) for server in servers]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for server in servers:
        server.should_exit = True
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    main()
