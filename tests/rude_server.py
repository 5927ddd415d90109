"""A TLS server that begins a reply and, when the client ends the connection, says nothing."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

from sweyard_cluster.pki import issue, make_authority

_REPLY = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n"


@contextlib.contextmanager
def rude_server(directory: Path) -> Iterator[tuple[str, ssl.SSLContext]]:
    """Its address, and what trusts it."""
    make_authority(directory)
    issue(directory, "server", "/CN=127.0.0.1", ["IP:127.0.0.1"])
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(directory / "server.crt", directory / "server.key")
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_answer_one, args=(listening, served, over))
        thread.start()
        try:
            port = listening.getsockname()[1]
            yield f"https://127.0.0.1:{port}", ssl.create_default_context(cafile=directory / "ca.crt")
        finally:
            over.set()
            thread.join()


def _answer_one(listening: socket.socket, context: ssl.SSLContext, over: threading.Event) -> None:
    accepted, _ = listening.accept()
    with context.wrap_socket(accepted, server_side=True) as connection:
        connection.recv(65_536)
        connection.sendall(_REPLY)
        over.wait()
