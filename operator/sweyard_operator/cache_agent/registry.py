"""What a registry says of an image before it is pulled: digest, layers, and how long to stay away.

OCI distribution specification 1.1. The runtime pulls on its own; nothing here is needed for that, so an agent that
cannot reach a registry which its runtime reaches (by a mirror, say) does without.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
from pydantic import BaseModel, ValidationError

from sweyard_operator.cache_agent.auth import FindAuth
from sweyard_operator.cache_agent.image_names import normalize, split_reference
from sweyard_operator.cache_agent.manifests import ACCEPT, ManifestDocument, choose_child, read_manifest
from sweyard_operator.cache_agent.protocol import PullFailure
from sweyard_operator.cache_agent.registry_auth import RegistryAuth, read_challenge, refresh_form
from sweyard_operator.cache_agent.registry_hosts import HUB, api_host, is_loopback
from sweyard_operator.cache_agent.retry_after import DEFAULT_PAUSE_SECONDS, read_retry_after

_COUNTS_MANIFESTS = frozenset({HUB})
"""Where a manifest that is read counts as a pull: there only the digest is asked for."""
_MOST_MANIFEST_BYTES = 4 << 20
"""As large as registries must take them; the agent has little memory."""


class RegistryError(Exception):
    """The registry does not tell. `pause_seconds` where it wants to be left alone for so long."""

    def __init__(self, reason: PullFailure, message: str, pause_seconds: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.pause_seconds = pause_seconds


class _Token(BaseModel):
    token: str = ""
    access_token: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a reference names now."""

    digest: str
    layers: Mapping[str, int] | None
    """Compressed bytes by digest; None where the registry counts asking as a pull, or tells none."""

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
        found = await self._read(host, repository, digest or reference)
        if found.manifests is not None:
            try:
                child = choose_child(found.manifests, self.architecture)
            except LookupError as error:
                raise RegistryError(PullFailure.NOT_FOUND, str(error)) from error
            found = await self._read(host, repository, child)
        return Manifest(digest, {layer.digest: layer.size for layer in found.layers or ()} or None)

    async def _read(self, host: str, repository: str, reference: str) -> ManifestDocument:
        _, body = await self._ask("GET", host, repository, reference)
        try:
            return read_manifest(body)
        except ValueError as error:
            raise RegistryError(PullFailure.CORRUPT, f"{host}: a manifest that is none: {error}") from error

    async def _ask(self, method: str, host: str, repository: str, reference: str) -> tuple[Mapping[str, str], bytes]:
        path = f"/v2/{repository}/manifests/{reference}"
        where = f"{host}/{repository}"
        status, headers, body = await self._send(method, host, path, self._authorizations.get(where))
        if status == 401 and (challenge := headers.get("WWW-Authenticate")):
            self._authorizations[where] = await self._authorize(host, repository, challenge)
            status, headers, body = await self._send(method, host, path, self._authorizations[where])
        if status >= 400:
            raise _error(host, status, headers)
        return headers, body

    async def _send(
        self, method: str, host: str, path: str, authorization: str | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"Accept": ACCEPT, **({"Authorization": authorization} if authorization else {})}
        if host not in self._plain_hosts and not is_loopback(host):
            try:
                return await self._request(method, f"https://{api_host(host)}{path}", headers)
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
                return reply.status, reply.headers, await _read_bounded(reply)
        except aiohttp.ClientConnectorSSLError:
            raise
        except aiohttp.ClientConnectorCertificateError as error:
            raise RegistryError(PullFailure.CERTIFICATE_UNKNOWN, f"{url}: {error.certificate_error}") from error
        except TimeoutError as error:
            raise RegistryError(PullFailure.TIMEOUT, f"{url}: no answer in {self.timeout_seconds:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise RegistryError(PullFailure.REGISTRY_UNREACHABLE, f"{url}: {error!r}") from error

    async def _authorize(self, host: str, repository: str, challenge: str) -> str:
        """The header to send; of a Bearer challenge by asking its realm."""
        auth = self.find_auth(f"{host}/{repository}")
        if not challenge.lower().startswith("bearer "):
            return _basic(auth)
        fields = read_challenge(challenge)
        realm = fields.get("realm", "")
        if auth is not None and not realm.startswith("https://") and not is_loopback(host):
            raise RegistryError(
                PullFailure.UNAUTHORIZED, f"{host}: its realm {realm} is not https, so gets no password"
            )
        asked: Mapping[str, str] = {name: fields[name] for name in ("service", "scope") if name in fields}
        status, body = await self._ask_realm(realm, asked, auth)
        try:
            answer = _Token.model_validate_json(body) if status < 400 else _Token()
        except ValidationError as error:
            raise RegistryError(PullFailure.REGISTRY_UNREACHABLE, f"{realm}: no token: {error}") from error
        token = answer.token or answer.access_token
        if not token:
            raise RegistryError(PullFailure.UNAUTHORIZED, f"{host}: {realm} answers {status} without a token")
        return f"Bearer {token}"

    async def _ask_realm(self, realm: str, asked: Mapping[str, str], auth: RegistryAuth | None) -> tuple[int, bytes]:
        """By the distribution project's token authentication, or with an identity token by its OAuth 2."""
        timeout = aiohttp.ClientTimeout(total=self.timeout_seconds)
        try:
            if auth is not None and auth.identity_token:
                form = refresh_form(auth.identity_token, asked)
                question = self.session.post(realm, data=form, timeout=timeout)
            else:
                headers = {"Authorization": header} if (header := _basic(auth)) else {}
                question = self.session.get(realm, params=asked, headers=headers, timeout=timeout)
            async with question as reply:
                return reply.status, await _read_bounded(reply)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise RegistryError(PullFailure.REGISTRY_UNREACHABLE, f"{realm}: {error!r}") from error


def _basic(auth: RegistryAuth | None) -> str:
    """Value of Authorization; empty where there is no password."""
    return "" if auth is None or auth.identity_token else auth.basic


async def _read_bounded(reply: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for piece in reply.content.iter_any():
        body += piece
        if len(body) > _MOST_MANIFEST_BYTES:
            raise RegistryError(
                PullFailure.CORRUPT, f"{reply.url}: an answer of more than {_MOST_MANIFEST_BYTES >> 20} MiB"
            )
    return body


def open_registry(find_auth: FindAuth, architecture: str) -> Registry:
    """In a running event loop; close its session."""
    return Registry(aiohttp.ClientSession(), find_auth, architecture)


def _is_plain_http(error: aiohttp.ClientConnectorSSLError) -> bool:
    cause = error.os_error
    return isinstance(cause, ssl.SSLError) and cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


def _error(host: str, status: int, headers: Mapping[str, str]) -> RegistryError:
    message = f"{host} answers {status}"
    pause = read_retry_after(headers)
    if status == 429:
        return RegistryError(PullFailure.RATE_LIMITED, message, DEFAULT_PAUSE_SECONDS if pause is None else pause)
    if status >= 500:
        return RegistryError(PullFailure.REGISTRY_UNREACHABLE, message, pause)
    reason = {401: PullFailure.UNAUTHORIZED, 403: PullFailure.UNAUTHORIZED, 404: PullFailure.NOT_FOUND}
    return RegistryError(reason.get(status, PullFailure.PULL_FAILED), message)
