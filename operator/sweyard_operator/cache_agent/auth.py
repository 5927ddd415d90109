"""Registry credentials from mounted docker config files, read whenever one is needed: some last for hours only, and the
kubelet puts their successors into the same place."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sweyard_operator.cache_agent.cri import RegistryAuth
from sweyard_operator.cache_agent.image_names import normalize, registry_host

FindAuth = Callable[[str], RegistryAuth | None]
"""Credentials for an image as they are now; None if there are none."""

_FILE = ".dockerconfigjson"
_HUB, _HUB_KEY = "docker.io", "index.docker.io"


class SecretError(ValueError):
    """A Secret that brings no credentials, with why."""


@dataclass(frozen=True, slots=True)
class PullSecrets:
    """Those mounted below a directory, each in one of its own name."""

    directory: Path

    def find(self, image: str) -> RegistryAuth | None:
        """See FindAuth. As kubelets do: of the entries for its registry, the one whose path says most of its own."""
        name = normalize(image)
        matching = [(server, auth) for server, auth in self._entries() if _matches(server, name)]
        return max(matching, key=lambda found: found[0])[1] if matching else None

    def explain(self, image: str) -> str:
        """What the Secrets lack for an image that its registry does not give away."""
        host, names = registry_host(image), [secret.name for secret in self._secrets()]
        broken = "".join(f"; {error}" for secret in self._secrets() for error in _trouble(secret))
        if not names:
            return f"no credentials for {host} are given: name a Secret that has them in pullSecrets"
        if self.find(image) is None:
            return f"no Secret named in pullSecrets ({', '.join(names)}) has credentials for {host}{broken}"
        return f"the credentials for {host} in pullSecrets do not suffice{broken}"

    def _secrets(self) -> list[Path]:
        return sorted(entry for entry in self.directory.glob("*") if entry.is_dir())

    def _entries(self) -> Iterator[tuple[str, RegistryAuth]]:
        for secret in self._secrets():
            try:
                yield from _read(secret).items()
            except SecretError:
                continue  # told once a registry wants what it should have had


def _trouble(secret: Path) -> Iterator[str]:
    try:
        _read(secret)
    except SecretError as error:
        yield str(error)


def _read(secret: Path) -> dict[str, RegistryAuth]:
    """By host and path, without a scheme. Raises SecretError."""
    try:
        config = json.loads((secret / _FILE).read_text())
        entries = {_server(key): _entry_auth(entry) for key, entry in config.get("auths", {}).items()}
    except FileNotFoundError:
        raise SecretError(
            f"Secret {secret.name} does not exist in this namespace, or has no key {_FILE}: `kubectl create secret "
            f"docker-registry {secret.name}` makes one"
        ) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise SecretError(f"Secret {secret.name}: its key {_FILE} is no Docker configuration ({error})") from error
    return {server: auth for server, auth in entries.items() if auth is not None}


def _server(key: str) -> str:
    host, _, path = key.removeprefix("https://").removeprefix("http://").partition("/")
    # Docker Hub's config key is a URL of its old index; image names say docker.io.
    host = _HUB if host == _HUB_KEY else host
    path = "" if path.rstrip("/") in ("v1", "v2") else path.rstrip("/")
    return f"{host}/{path}" if path else host


def _matches(server: str, image: str) -> bool:
    """A host may have a star for each of its parts, and what follows it is how the image's path begins."""
    host, _, path = server.partition("/")
    named, _, rest = image.partition("/")
    parts, patterns = named.split("."), host.split(".")
    is_host = len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))
    return is_host and rest.startswith(path)


def _entry_auth(entry: Mapping[str, Any]) -> RegistryAuth | None:
    """None of an empty one, whose password only a credential helper knows. Raises ValueError, AttributeError or
    TypeError for what is no entry."""
    if entry.get("identitytoken"):
        return RegistryAuth("", "", identity_token=str(entry["identitytoken"]))
    if entry.get("auth"):
        text = base64.b64decode("".join(entry["auth"].split()), validate=True).decode()
        username, colon, password = text.partition(":")
        if not colon:
            raise ValueError("an auth without a colon")
        return RegistryAuth(username, password)
    return RegistryAuth(str(entry["username"]), str(entry.get("password", ""))) if entry.get("username") else None
