"""Serving the page until it is interrupted."""

import socket

import typer
import uvicorn

from sweyard_cli.errors import UserError
from sweyard_cli.ui.app import make_app
from sweyard_cli.ui.sources import Sources

_GRACE_SECONDS = 1
"""Streams of news do not end by themselves."""


def serve(sources: Sources, host: str, port: int, token: str | None) -> None:
    """Raises UserError for an address that cannot be had."""
    listening = listen(host, port)
    config = uvicorn.Config(
        make_app(sources, token),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        server_header=False,
    )
    typer.echo(address(listening, token))
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Raises UserError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise UserError(f"{host} port {port}: {error.strerror}; give another --port, or 0 for a free one") from error


def address(listening: socket.socket, token: str | None) -> str:
    """To be opened in a browser of this machine."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
