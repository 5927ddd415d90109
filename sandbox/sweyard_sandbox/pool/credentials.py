"""How to reach and be known to an API server: a kubeconfig, or the service account of the pod one runs in."""

import asyncio
import base64
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_SECONDS = 60.0
"""Projected tokens are replaced on disk long before they lapse; reading each minute is soon enough."""


class CredentialsError(ValueError):
    """A kubeconfig that cannot be used; the message names the entry."""


@dataclass(slots=True)
class Credentials:
    """Server address, trust, and a source of bearer tokens."""

    server: str
    ssl_context: ssl.SSLContext | None
    """None for plain http."""
    token_source: "TokenSource"
    namespace: str = "default"


@dataclass(slots=True)
class TokenSource:
    """The bearer token of the moment; read again when it may have changed."""

    fixed: str | None = None
    path: Path | None = None
    plugin: dict[str, Any] | None = None
    """A client-go credential plugin (exec entry of a kubeconfig)."""
    _cached: str | None = field(default=None, init=False)
    _good_until: float = field(default=0.0, init=False)

    async def token(self, now: float) -> str | None:
        """`now` is monotonic seconds."""
        if self.path is None and self.plugin is None:
            return self.fixed
        if now >= self._good_until:
            if self.path is not None:
                self._cached, seconds = self.path.read_text().strip(), _TOKEN_SECONDS
            else:
                self._cached, seconds = await _run_plugin(self.plugin or {})
            self._good_until = now + seconds
        return self._cached

    def forget(self) -> bool:
        """The token was refused: get a new one next time. False if there is none to get."""
        self._good_until = 0.0
        return self.path is not None or self.plugin is not None


def find_credentials(environment: Mapping[str, str]) -> Credentials:
    """Of $KUBECONFIG, else of the pod one runs in, else of ~/.kube/config. Raises CredentialsError."""
    if environment.get("KUBECONFIG"):
        return load_kubeconfig(Path(environment["KUBECONFIG"].split(os.pathsep)[0]))
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return load_in_cluster(environment)
    return load_kubeconfig(Path(environment.get("HOME", "~")).expanduser() / ".kube/config")


def load_in_cluster(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Credentials:
    """Credentials of the pod. Raises CredentialsError outside of one."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise CredentialsError("KUBERNETES_SERVICE_HOST is not set: this is no pod; give a kubeconfig instead")
    bracketed = f"[{host}]" if ":" in host else host
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    namespace = (directory / "namespace").read_text().strip()
    return Credentials(f"https://{bracketed}:{port}", context, TokenSource(path=directory / "token"), namespace)


def load_kubeconfig(path: Path, context_name: str | None = None) -> Credentials:
    """Credentials of a context (default: the current one). Raises CredentialsError."""
    config = yaml.safe_load(path.read_text()) or {}
    name = context_name or config.get("current-context")
    context = _find(config, "contexts", "context", name, path)
    cluster = _find(config, "clusters", "cluster", context.get("cluster"), path)
    user = _find(config, "users", "user", context["user"], path) if context.get("user") else {}
    server = str(cluster["server"]).rstrip("/")
    ssl_context = _build_ssl(cluster, user, path.parent) if server.startswith("https") else None
    token_file = user.get("tokenFile")
    source = TokenSource(
        fixed=user.get("token"), path=path.parent / token_file if token_file else None, plugin=user.get("exec")
    )
    return Credentials(server, ssl_context, source, context.get("namespace", "default"))


def _find(config: dict[str, Any], plural: str, key: str, name: str | None, path: Path) -> dict[str, Any]:
    for entry in config.get(plural) or ():
        if entry.get("name") == name:
            found: dict[str, Any] = entry.get(key) or {}
            return found
    raise CredentialsError(f"{path}: there is no {key} named {name!r}; see `kubectl config get-{plural}`")


def _build_ssl(cluster: dict[str, Any], user: dict[str, Any], base: Path) -> ssl.SSLContext:
    authority = _read_data(cluster, "certificate-authority", base)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = (_read_data(user, name, base) for name in ("client-certificate", "client-key"))
    if certificate and key:
        with tempfile.NamedTemporaryFile() as file:  # ssl reads certificates from files only
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _read_data(entry: dict[str, Any], name: str, base: Path) -> bytes | None:
    if data := entry.get(f"{name}-data"):
        return base64.b64decode(data)
    return (base / entry[name]).read_bytes() if entry.get(name) else None


async def _run_plugin(plugin: dict[str, Any]) -> tuple[str, float]:
    """Token and seconds until it should be asked for again."""
    request = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {entry["name"]: entry["value"] for entry in plugin.get("env") or ()}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(request)
    words = [plugin["command"], *(plugin.get("args") or ())]
    exports = [f"{name}={value}" for name, value in environment.items()]
    process = await asyncio.create_subprocess_exec("env", *exports, *words, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise CredentialsError(f"credential plugin {plugin['command']!r} ended with {process.returncode}")
    status = json.loads(output)["status"]
    if not status.get("token"):
        raise CredentialsError(f"credential plugin {plugin['command']!r} gave no token")
    return str(status["token"]), _TOKEN_SECONDS
