"""Registry credentials from mounted docker config files, read whenever one is needed: some last for hours only, and the
kubelet puts their successors into the same place."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sweyard_operator.cache_agent.image_names import normalize, registry_host
from sweyard_operator.cache_agent.registry_auth import RegistryAuth, read_entry, server_of

FindAuth = Callable[[str], RegistryAuth | None]
"""Credentials for an image as they are now; None if there are none."""

_FILE = ".dockerconfigjson"


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
        entries = {server_of(key): read_entry(entry) for key, entry in config.get("auths", {}).items()}
    except FileNotFoundError:
        raise SecretError(
            f"Secret {secret.name} does not exist in this namespace, or has no key {_FILE}: `kubectl create secret "
            f"docker-registry {secret.name}` makes one"
        ) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise SecretError(f"Secret {secret.name}: its key {_FILE} is no Docker configuration ({error})") from error
    return {server: auth for server, auth in entries.items() if auth is not None}


def _matches(server: str, image: str) -> bool:
    """A host may have a star for each of its parts, and what follows it is how the image's path begins."""
    host, _, path = server.partition("/")
    named, _, rest = image.partition("/")
    parts, patterns = named.split("."), host.split(".")
    is_host = len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))
    return is_host and rest.startswith(path)
