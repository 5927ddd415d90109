"""Requests to registries (OCI distribution specification 1.1): with a token where one is asked for, patient where they
refuse for a while or break off."""

import http.client
import json
import re
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from sweyard_cli.cache.docker_logins import DockerLogins
from sweyard_operator.cache_agent.manifests import ACCEPT
from sweyard_operator.cache_agent.registry_auth import RegistryAuth, read_challenge, refresh_form
from sweyard_operator.cache_agent.registry_hosts import api_host, is_loopback
from sweyard_operator.cache_agent.retry_after import read_retry_after

ACCEPTED = {"Accept": ACCEPT}
_TIMEOUT_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 60.0


class RegistryError(Exception):
    """What a registry would not do, in a sentence. `status` is its HTTP status; None if it does not answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class BrokenOffError(Exception):
    """A transfer ended early or brought other bytes than it should: worth another try."""


@dataclass(slots=True)
class RegistryClient:
    """May be used by several threads at once."""

    logins: DockerLogins = field(default_factory=DockerLogins)
    insecure_hosts: frozenset[str] = frozenset()
    """These may speak plain HTTP, or have a certificate that nobody knows."""
    tries: int = 6
    sleep: Callable[[float], object] | None = None
    """Default: as long, or until it is stopped."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    _authorizations: dict[tuple[str, str, bool], str] = field(default_factory=dict)
    _plain_hosts: set[str] = field(default_factory=set)

    def stop(self) -> None:
        """Let what is under way in other threads end soon, with RegistryError."""
        self._stopped.set()

    def check_running(self) -> None:
        """Raises RegistryError once it was stopped."""
        if self._stopped.is_set():
            raise RegistryError("interrupted")

    def retry(self, action: Callable[[], Any]) -> Any:
        """`action`, again after a pause where a registry asks for one, fails or breaks off. Raises RegistryError."""
        for number in range(self.tries):
            self.check_running()
            try:
                return action()
            except urllib.error.HTTPError as error:
                error.close()
                pause = _pause_seconds(error, number)
                if pause is None or number + 1 == self.tries:
                    raise RegistryError(f"the registry answers {error.code} {error.reason}", error.code) from error
            except (OSError, http.client.HTTPException, BrokenOffError) as error:
                if number + 1 == self.tries:
                    raise RegistryError(str(getattr(error, "reason", None) or error) or repr(error)) from error
                pause = 2.0**number
            (self.sleep or self._stopped.wait)(pause)
        raise AssertionError

    def fetch(self, host: str, path: str, headers: Mapping[str, str] = ACCEPTED) -> tuple[Message, bytes]:
        """Headers and body. Raises RegistryError."""

        def once() -> tuple[Message, bytes]:
            with self.open("GET", host, path, headers=headers) as reply:
                return reply.headers, reply.read()

        found: tuple[Message, bytes] = self.retry(once)
        return found

    @contextmanager
    def open(
        self,
        method: str,
        host: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """One request, authorized; a `body` that is not bytes is sent once only. Raises HTTPError, OSError."""
        repository = re.split(r"/(?:manifests|blobs)/", path)[0]
        key = (host, repository, method in ("POST", "PUT", "PATCH"))
        try:
            reply = self._send(method, host, path, headers or {}, body, self._authorizations.get(key))
        except urllib.error.HTTPError as error:
            challenge = error.headers.get("WWW-Authenticate", "")
            if error.code != 401 or not challenge:
                raise
            error.close()
            self._authorizations[key] = self._authorize(host, challenge)
            if not (body is None or isinstance(body, bytes)):
                raise BrokenOffError("the token was over") from error
            reply = self._send(method, host, path, headers or {}, body, self._authorizations[key])
        with reply:
            yield reply

    def _send(
        self, method: str, host: str, path: str, headers: Mapping[str, str], body: Any, authorization: str | None
    ) -> http.client.HTTPResponse:
        context = _unverified() if host in self.insecure_hosts else None
        authorization = None if "://" in path else authorization  # not for another host
        if not is_loopback(host) and host not in self._plain_hosts:
            try:
                return _open(_request(method, _url("https", host, path), headers, body, authorization), context)
            except urllib.error.URLError as error:
                if not _is_plain_http(error):
                    raise
                if host not in self.insecure_hosts:
                    raise RegistryError(
                        f"{host} speaks plain HTTP; `sweyard cache` reads it with --insecure-registry {host}"
                    ) from error
                self._plain_hosts.add(host)
        return _open(_request(method, _url("http", host, path), headers, body, authorization), None)

    def _authorize(self, host: str, challenge: str) -> str:
        """The header to send; of a Bearer challenge by asking its realm."""
        login = self.logins.find(host)
        if not challenge.lower().startswith("bearer "):
            if login is None:
                raise RegistryError(f"{host} wants a password: log in with `docker login {host}`", 401)
            if login.identity_token:
                raise RegistryError(f"{host} wants a password, and Docker's configuration has a token for it", 401)
            return login.basic
        fields = read_challenge(challenge)
        realm = urllib.parse.urlsplit(fields.get("realm", ""))
        may_be_plain = is_loopback(host) or host in self.insecure_hosts
        if login is not None and realm.scheme != "https" and not may_be_plain:
            raise RegistryError(f"{host}: its realm {realm.geturl()} is not https, so gets no password", 401)
        asked: Mapping[str, str] = {name: fields[name] for name in ("service", "scope") if name in fields}
        context = _unverified() if realm.netloc in self.insecure_hosts else None
        with _open(_token_request(realm.geturl(), asked, login), context) as reply:
            try:
                answer = json.load(reply)
                return f"Bearer {answer.get('token') or answer['access_token']}"
            except (ValueError, LookupError, AttributeError) as error:
                raise RegistryError(f"{host}: its realm {realm.geturl()} answers without a token", 401) from error


def _token_request(realm: str, asked: Mapping[str, str], login: RegistryAuth | None) -> urllib.request.Request:
    """By the distribution project's token authentication, or with an identity token by its OAuth 2."""
    if login is not None and login.identity_token:
        form = refresh_form(login.identity_token, asked)
        return _request("POST", realm, {}, urllib.parse.urlencode(form).encode(), None)
    header = None if login is None else login.basic
    return _request("GET", f"{realm}?{urllib.parse.urlencode(asked)}", {}, None, header)


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def strip_host(host: str, location: str) -> str:
    """A location that a registry names, as a path if it is the registry's own."""
    parts = urllib.parse.urlsplit(location)
    is_own = parts.netloc in ("", host, api_host(host))
    return urllib.parse.urlunsplit(("", "", *parts[2:])) if is_own else location


def _url(scheme: str, host: str, path: str) -> str:
    return path if "://" in path else f"{scheme}://{api_host(host)}{path}"


def _request(
    method: str, url: str, headers: Mapping[str, str], body: Any, authorization: str | None
) -> urllib.request.Request:
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
    if authorization is not None:
        # Not for whoever a blob is redirected to.
        request.add_unredirected_header("Authorization", authorization)
    return request


def _open(request: urllib.request.Request, context: ssl.SSLContext | None) -> http.client.HTTPResponse:
    try:
        reply: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS, context=context)
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise RegistryError(
                f"{request.host} has a certificate that this machine does not trust ({error.reason.verify_message}): "
                f"trust the CA that signed it, or let `sweyard cache` read it with --insecure-registry {request.host}"
            ) from error
        raise
    return reply


def _is_plain_http(error: urllib.error.URLError) -> bool:
    reason = error.reason
    return isinstance(reason, ssl.SSLError) and reason.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


def _pause_seconds(error: urllib.error.HTTPError, number: int) -> float | None:
    """Before another try; None where it would bring the same answer."""
    if error.code != 429 and error.code < 500:
        return None
    told = read_retry_after(dict(error.headers.items()))
    return min(2.0**number if told is None else told, _LONGEST_PAUSE_SECONDS)
