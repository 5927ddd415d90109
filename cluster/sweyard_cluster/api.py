"""The few calls to the API server that the tool makes itself; manifests go through kubectl."""

import base64
import http.client
import json
import ssl
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from .errors import ClusterError

TIMEOUT_SECONDS = 10.0


class ApiError(ClusterError):
    """An answer other than 2xx; `status` is the HTTP code."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status}: {body[:300]}")
        self.status = status


class Api:
    """A client with the credentials of a kubeconfig that `write_kubeconfig` made."""

    def __init__(self, kubeconfig: Path, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.timeout_seconds = timeout_seconds
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        server = urlsplit(cluster["server"])
        self.host, self.port = server.hostname or "", server.port or 443
        self.context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            pair.flush()
            self.context.load_cert_chain(pair.name)

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, content: str = "json") -> bytes:
        """One request; raises ApiError for a refusal and OSError when the server cannot be reached."""
        connection = http.client.HTTPSConnection(
            self.host, self.port, timeout=self.timeout_seconds, context=self.context
        )
        try:
            headers = {"Accept": "application/json", "Content-Type": f"application/{content}"}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise ApiError(method, path, answer.status, text.decode(errors="replace"))
        return text

    def get(self, path: str) -> Any:
        return json.loads(self.call("GET", path))

    def answers(self, path: str) -> bool:
        """Whether the server is there and `path` can be read."""
        try:
            self.call("GET", path)
        except (OSError, http.client.HTTPException, ApiError):
            return False
        return True


@dataclass(frozen=True)
class Kubectl:
    """The built kubectl with a kubeconfig."""

    program: Path
    kubeconfig: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str, input_text: str | None = None, timeout_seconds: float = 300) -> str:
        """Standard output; raises ClusterError with what kubectl said on failure."""
        done = subprocess.run(
            [self.program, f"--kubeconfig={self.kubeconfig}", *arguments],
            input=input_text,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
            env=dict(self.environment),
        )
        if done.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Server-side apply."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [dict(one) for one in objects]})
        self.run("apply", "--server-side", "--force-conflicts", "--field-manager=sweyard-cluster", "-f", "-",
                 input_text=text)  # fmt: skip
