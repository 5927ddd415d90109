"""Serving the page until it is interrupted."""

import errno
import socket

import typer
import uvicorn

from sweyard_cli.errors import UserError
from sweyard_cli.ui.app import NEWS_SECONDS, make_app
from sweyard_cli.ui.sources import Sources

_NUM_READERS = 4
"""Files that are searched at a time: some 100 MB."""
_NO_ADDRESS = (errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_AGAIN)
_GRACE_SECONDS = 5
"""More than streams of news need to see that it ends."""


def serve(sources: Sources, host: str, port: int, token: str | None, *, is_new_token: bool) -> None:
    """Until it is interrupted. Raises UserError for an address that cannot be had.

    A token that was given is not printed: in a pod more people may read the log than the Secret.
    """
    listening = listen(host, port)
    typer.echo(address(listening, token if is_new_token else None))
    make_server(sources, token).run(sockets=[listening])


def make_server(sources: Sources, token: str | None, *, news_seconds: float = NEWS_SECONDS) -> uvicorn.Server:
    """It is told to end by `should_exit`, as a signal does."""

    def is_ending() -> bool:
        return server.should_exit

    server = uvicorn.Server(
        uvicorn.Config(
            make_app(sources, token, news_seconds=news_seconds, num_readers=_NUM_READERS, is_ending=is_ending),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            server_header=False,
            lifespan="off",
        )
    )
    return server


def listen(host: str, port: int) -> socket.socket:
    """Raises UserError."""
    if not host:  # all addresses, to a socket
        raise UserError("--host is empty, as a variable is that was never set: give an address, or 0.0.0.0 for all")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        if error.errno in _NO_ADDRESS:
            raise UserError(f"--host {host}: is no address of this machine; give one, or 0.0.0.0 for all") from error
        raise UserError(f"{host} port {port}: {error.strerror}; give another --port, or 0 for a free one") from error


def address(listening: socket.socket, token: str | None) -> str:
    """To be opened in a browser of this machine."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
