"""Who the operator is to the API server: a kubeconfig or the pod's service account, with tokens kept fresh.

Understands what a kubeconfig may hold: certificates inline or in files, tokens, token files, exec plugins.
"""

import asyncio
import base64
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import yaml

from sweyard_operator.errors import OperatorError

SERVICE_ACCOUNT_PATH = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_FILE_SECONDS = 60.0
_EXEC_MARGIN_SECONDS = 60.0


class CredentialsError(OperatorError, ValueError):
    """No usable credentials; the message names the file and the remedy."""


class TokenSource(Protocol):
    """Gives the bearer token of the moment."""

    async def token(self) -> str | None:
        """The token, or None where a client certificate is the identity."""
        ...


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A token that does not change."""

    value: str | None

    async def token(self) -> str | None:
        """The token."""
        return self.value


class TokenFile:
    """A token that the kubelet rotates in its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._value: str | None = None
        self._read_at = 0.0

    async def token(self) -> str | None:
        """The token, read again each minute."""
        now = asyncio.get_running_loop().time()
        if self._value is None or now - self._read_at > _TOKEN_FILE_SECONDS:
            self._value, self._read_at = self._path.read_text().strip(), now
        return self._value


class ExecToken:
    """A token that a program prints as an ExecCredential (client.authentication.k8s.io)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._command = [str(config["command"]), *map(str, config.get("args") or ())]
        self._env = {entry["name"]: entry["value"] for entry in config.get("env") or ()}
        self._api_version = str(config.get("apiVersion", "client.authentication.k8s.io/v1"))
        self._value: str | None = None
        self._expires_at: float | None = 0.0
        self._lock = asyncio.Lock()

    async def token(self) -> str | None:
        """The token, asked for again a minute before it expires."""
        async with self._lock:
            now = datetime.now().timestamp()
            if self._value is None or (self._expires_at is not None and now > self._expires_at - _EXEC_MARGIN_SECONDS):
                await self._refresh()
            return self._value

    async def _refresh(self) -> None:
        info = {"apiVersion": self._api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env={**os.environ, **self._env, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise CredentialsError(f"{self._command[0]} ended with {process.returncode}; log in again with it")
        status = json.loads(output)["status"]
        expires = status.get("expirationTimestamp")
        self._value = str(status["token"])
        self._expires_at = None if expires is None else datetime.fromisoformat(expires).timestamp()


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the API server is and how to speak to it."""

    server: str
    token_source: TokenSource
    ssl_context: ssl.SSLContext | None
    """None for plain http."""
    namespace: str
    """Namespace of the context, or of the pod."""


def load_credentials(kubeconfig: Path | None) -> Credentials:
    """From `kubeconfig` if given, else from the pod's service account. Raises CredentialsError."""
    return _from_service_account(SERVICE_ACCOUNT_PATH) if kubeconfig is None else _from_kubeconfig(kubeconfig)


def _from_service_account(folder: Path) -> Credentials:
    if not (folder / "token").exists():
        raise CredentialsError("not in a pod with a service account and KUBECONFIG is not set; set KUBECONFIG")
    return Credentials(
        server="https://kubernetes.default.svc",
        token_source=TokenFile(folder / "token"),
        ssl_context=ssl.create_default_context(cafile=str(folder / "ca.crt")),
        namespace=(folder / "namespace").read_text().strip(),
    )


def _from_kubeconfig(path: Path) -> Credentials:
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
    except (OSError, KeyError, TypeError, StopIteration, yaml.YAMLError) as error:
        raise CredentialsError(f"{path} is not a usable kubeconfig ({error!r}); check its current-context") from error
    return Credentials(
        server=str(cluster["server"]).rstrip("/"),
        token_source=_token_source(user, path.parent),
        ssl_context=_ssl_context(cluster, user, path.parent),
        namespace=str(context.get("namespace", "default")),
    )


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _token_source(user: Mapping[str, Any], folder: Path) -> TokenSource:
    if "exec" in user:
        return ExecToken(user["exec"])
    if "tokenFile" in user:
        return TokenFile(folder / user["tokenFile"])
    return StaticToken(user.get("token"))


def _ssl_context(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext | None:
    if str(cluster["server"]).startswith("http://"):
        return None
    authority = _content(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=None if authority is None else authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = (_content(user, name, folder) for name in ("client-certificate", "client-key"))
    if certificate is not None and key is not None:
        # The ssl module loads certificates from files only.
        with tempfile.TemporaryDirectory() as scratch:
            chain = Path(scratch, "chain.pem")
            chain.touch(mode=0o600)
            chain.write_bytes(certificate + b"\n" + key)
            context.load_cert_chain(chain)
    return context


def _content(section: Mapping[str, Any], name: str, folder: Path) -> bytes | None:
    if f"{name}-data" in section:
        return base64.b64decode(section[f"{name}-data"])
    return (folder / section[name]).read_bytes() if name in section else None
