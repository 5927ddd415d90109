"""What a registry says of an image before it is pulled: digest, layers, and how long to stay away.

OCI distribution specification 1.1. The runtime pulls on its own; nothing here is needed for that, so an agent that
cannot reach a registry which its runtime reaches (by a mirror, say) does without.
"""

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from sweyard_operator.cache_agent.auth import FindAuth
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import PullFailure

_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_ACCEPT = ", ".join((*_INDEXES, *_MANIFESTS))
_HUB, _HUB_API = "docker.io", "registry-1.docker.io"
_COUNTS_MANIFESTS = frozenset({_HUB})
"""Where a manifest that is read counts as a pull: there only the digest is asked for."""
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_DEFAULT_PAUSE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 3_600.0


class RegistryError(Exception):
    """The registry does not tell. `pause_seconds` where it wants to be left alone for so long."""

    def __init__(self, reason: PullFailure, message: str, pause_seconds: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.pause_seconds = pause_seconds


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a reference names now."""

    digest: str
    layers: Mapping[str, int] | None
    """Compressed bytes by digest; None where the registry counts asking as a pull."""

    @property
    def num_bytes(self) -> int | None:
        """Compressed."""
        return None if self.layers is None else sum(self.layers.values())


@dataclass(slots=True)
class Registry:
    """Asks registries, each by the scheme it speaks; a token is fetched once a repository."""

    session: aiohttp.ClientSession
    find_auth: FindAuth
    architecture: str = "amd64"
    timeout_seconds: float = 20.0
    _plain_hosts: set[str] = field(default_factory=set)
    _authorizations: dict[str, str] = field(default_factory=dict)

    async def resolve(self, image: str) -> Manifest:
        """Raises RegistryError."""
        host, _, rest = normalize(image).partition("/")
        repository, reference = split_reference(rest)
        head, _ = await self._ask("HEAD", host, repository, reference)
        digest = head.get("Docker-Content-Digest", "")
        if host in _COUNTS_MANIFESTS:
            return Manifest(digest, None)
        manifest = await self._read(host, repository, digest or reference)
        if "manifests" in manifest:
            manifest = await self._read(host, repository, self._choose(manifest))
        layers = {str(layer["digest"]): int(layer["size"]) for layer in manifest.get("layers", ())}
        return Manifest(digest, layers)

    def _choose(self, index: Mapping[str, Any]) -> str:
        for entry in index["manifests"]:
            platform = entry.get("platform") or {}
            if (platform.get("os"), platform.get("architecture")) == ("linux", self.architecture):
                return str(entry["digest"])
        raise RegistryError(PullFailure.NOT_FOUND, f"the registry has no image for linux/{self.architecture}")

    async def _read(self, host: str, repository: str, reference: str) -> dict[str, Any]:
        _, body = await self._ask("GET", host, repository, reference)
        try:
            found: dict[str, Any] = json.loads(body)
        except ValueError as error:
            raise RegistryError(PullFailure.CORRUPT, f"{host}: a manifest that is no JSON: {error}") from error
        return found

    async def _ask(self, method: str, host: str, repository: str, reference: str) -> tuple[Mapping[str, str], bytes]:
        path = f"/v2/{repository}/manifests/{reference}"
        where = f"{host}/{repository}"
        status, headers, body = await self._send(method, host, path, self._authorizations.get(where))
        if status == 401 and (challenge := headers.get("WWW-Authenticate")):
            self._authorizations[where] = await self._authorize(host, challenge)
            status, headers, body = await self._send(method, host, path, self._authorizations[where])
        if status >= 400:
            raise _error(host, status, headers)
        return headers, body

    async def _send(
        self, method: str, host: str, path: str, authorization: str | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"Accept": _ACCEPT, **({"Authorization": authorization} if authorization else {})}
        if host not in self._plain_hosts and not is_loopback(host):
            try:
                return await self._request(method, f"https://{_api(host)}{path}", headers)
            except aiohttp.ClientConnectorSSLError as error:
                # A registry of a closed network that speaks plain HTTP: it never gets a credential from us.
                if not _is_plain_http(error):
                    raise RegistryError(PullFailure.REGISTRY_UNREACHABLE, f"{host}: {error}") from error
                self._plain_hosts.add(host)
        if not is_loopback(host):
            headers.pop("Authorization", None)
        return await self._request(method, f"http://{host}{path}", headers)

    async def _request(self, method: str, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        timeout = aiohttp.ClientTimeout(total=self.timeout_seconds)
        try:
            async with self.session.request(method, url, headers=headers, timeout=timeout) as reply:
                return reply.status, reply.headers, await reply.read()
        except aiohttp.ClientConnectorSSLError:
            raise
        except aiohttp.ClientConnectorCertificateError as error:
            raise RegistryError(PullFailure.CERTIFICATE_UNKNOWN, f"{url}: {error.certificate_error}") from error
        except TimeoutError as error:
            raise RegistryError(PullFailure.TIMEOUT, f"{url}: no answer in {self.timeout_seconds:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise RegistryError(PullFailure.REGISTRY_UNREACHABLE, f"{url}: {error!r}") from error

    async def _authorize(self, host: str, challenge: str) -> str:
        """The header to send; of a Bearer challenge by asking its realm."""
        auth = self.find_auth(host)
        basic = aiohttp.encode_basic_auth(auth.username, auth.password) if auth is not None else ""
        if not challenge.lower().startswith("bearer "):
            return basic
        fields = dict(_CHALLENGE.findall(challenge))
        realm = fields.get("realm", "")
        if basic and not realm.startswith("https://") and not is_loopback(host):
            raise RegistryError(
                PullFailure.UNAUTHORIZED, f"{host}: its realm {realm} is not https, so gets no password"
            )
        query = {name: fields[name] for name in ("service", "scope") if name in fields}
        timeout = aiohttp.ClientTimeout(total=self.timeout_seconds)
        headers = {"Authorization": basic} if basic else {}
        try:
            async with self.session.get(realm, params=query, headers=headers, timeout=timeout) as reply:
                answer = json.loads(await reply.read()) if reply.status < 400 else {}
                token = answer.get("token") or answer.get("access_token")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise RegistryError(PullFailure.REGISTRY_UNREACHABLE, f"{realm}: {error!r}") from error
        if not token:
            raise RegistryError(PullFailure.UNAUTHORIZED, f"{host}: {realm} answers {reply.status} without a token")
        return f"Bearer {token}"


def open_registry(find_auth: FindAuth, architecture: str) -> Registry:
    """In a running event loop; close its session."""
    return Registry(aiohttp.ClientSession(), find_auth, architecture)


def split_reference(rest: str) -> tuple[str, str]:
    """Repository, and tag or digest, of a full reference without its host."""
    repository, at, digest = rest.partition("@")
    if at:
        return repository, digest
    repository, _, tag = rest.rpartition(":")
    return repository, tag


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; of a date, which clocks disagree about, the default."""
    text = headers.get("Retry-After")
    if text is None:
        return None
    seconds = float(text) if text.strip().isdecimal() else _DEFAULT_PAUSE_SECONDS
    return min(_LONGEST_PAUSE_SECONDS, seconds)


def is_loopback(host: str) -> bool:
    """Container runtimes take it that a registry on their own machine speaks HTTP."""
    name = host.partition(":")[0]
    return name == "localhost" or name.startswith("127.")


def _api(host: str) -> str:
    return _HUB_API if host == _HUB else host


def _is_plain_http(error: aiohttp.ClientConnectorSSLError) -> bool:
    cause = error.os_error
    return isinstance(cause, ssl.SSLError) and cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


def _error(host: str, status: int, headers: Mapping[str, str]) -> RegistryError:
    message = f"{host} answers {status}"
    pause = read_retry_after(headers)
    if status == 429:
        return RegistryError(PullFailure.RATE_LIMITED, message, _DEFAULT_PAUSE_SECONDS if pause is None else pause)
    if status >= 500:
        return RegistryError(PullFailure.REGISTRY_UNREACHABLE, message, pause)
    reason = {401: PullFailure.UNAUTHORIZED, 403: PullFailure.UNAUTHORIZED, 404: PullFailure.NOT_FOUND}
    return RegistryError(reason.get(status, PullFailure.PULL_FAILED), message)
