"""A door in front of a real registry that lies on demand: refuses, fails, is slow, corrupts and loses."""

import http.client
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_TIMEOUT_SECONDS = 60.0
_PASSED_ON = ("Content-Type", "Docker-Content-Digest", "ETag")


_GRACE_SECONDS = 1.0
"""What a client had sent before the refusal reached it, and whole seconds of a Retry-After."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What the door does, until told otherwise."""

    refuse_for_seconds: float = 0.0
    """429 with Retry-After, from the first request of these faults on."""
    fail_every: int = 0
    """Every so manieth blob is answered 500."""
    slow_seconds: float = 0.0
    corrupt: frozenset[str] = frozenset()
    """Digests of blobs that come with other bytes."""
    missing: frozenset[str] = frozenset()
    """Ends of paths that are not there."""


@dataclass(slots=True)
class Door:
    """Its address, its faults and what it saw."""

    address: str
    faults: Faults = field(default_factory=Faults)
    seen: Counter[str] = field(default_factory=Counter)
    """refused, impatient (of these, of clients told before to stay away), failed, corrupted, missed, and bytes."""
    _refusing_until: float | None = None
    _told_at: dict[str, float] = field(default_factory=dict)
    _blobs: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lie(self, faults: Faults) -> None:
        """From now on so."""
        with self._lock:
            self.faults, self._refusing_until = faults, None
            self._told_at.clear()

    def judge(self, client: str, path: str) -> tuple[int, dict[str, str]] | None:
        """A status and headers instead of the registry's answer."""
        with self._lock:
            now = time.monotonic()
            if self._refusing_until is None:
                self._refusing_until = now + self.faults.refuse_for_seconds
            left = self._refusing_until - now
            if left > 0.0:
                self.seen["refused"] += 1
                self.seen["impatient"] += now > self._told_at.setdefault(client, now) + _GRACE_SECONDS
                return 429, {"Retry-After": str(int(left) + 1)}
            if any(path.endswith(end) for end in self.faults.missing):
                self.seen["missed"] += 1
                return 404, {}
            if "/blobs/" in path:
                self._blobs += 1
                if self.faults.fail_every and self._blobs % self.faults.fail_every == 0:
                    self.seen["failed"] += 1
                    return 500, {}
        return None

    def is_corrupt(self, path: str) -> bool:
        """Its bytes are to be others."""
        return path.rpartition("/")[2] in self.faults.corrupt


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed in mid-pull is part of the proof."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def lying_door(host: str, port: int, upstream: str) -> Iterator[Door]:
    """Serves at host:port what `upstream` (host:port, plain HTTP) has."""
    door = Door(f"{host}:{port}")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on(with_body=True)

        def do_HEAD(self) -> None:
            self._pass_on(with_body=False)

        def _pass_on(self, *, with_body: bool) -> None:
            time.sleep(door.faults.slow_seconds)
            if (verdict := door.judge(self.client_address[0], self.path)) is not None:
                self._answer(verdict[0], verdict[1], b"", 0)
                return
            connection = http.client.HTTPConnection(upstream, timeout=_TIMEOUT_SECONDS)
            try:
                accepted = {"Accept": self.headers["Accept"]} if "Accept" in self.headers else {}
                connection.request(self.command, self.path, headers=accepted)
                reply = connection.getresponse()
                body = reply.read()
            finally:
                connection.close()
            if body and door.is_corrupt(self.path):
                door.seen["corrupted"] += 1
                body = body[:-1] + bytes([body[-1] ^ 1])
            headers = {name: value for name in _PASSED_ON if (value := reply.headers.get(name)) is not None}
            length = len(body) if with_body else int(reply.headers.get("Content-Length", 0))
            door.seen["bytes"] += len(body)
            self._answer(reply.status, headers, body, length)

        def _answer(self, status: int, headers: dict[str, str], body: bytes, length: int) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(length)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = _Server((host, port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield door
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
