"""Credentials for registries from Docker's configuration: what `docker login` left there, or a helper that it names."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweyard_cli.errors import UserError
from sweyard_operator.cache_agent.registry_auth import HUB_KEY, RegistryAuth, read_entry, server_of
from sweyard_operator.cache_agent.registry_hosts import HUB

_TOKEN = "<token>"
"""A helper's user name for a secret that is an identity token."""


@dataclass(frozen=True, slots=True)
class DockerLogins:
    """The content of config.json."""

    config: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, directory: Path) -> "DockerLogins":
        """Empty where there is no config.json. Raises UserError for one that is none."""
        file = directory / "config.json"
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            sections = [found.get(name) or {} for name in ("auths", "credHelpers")]
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, AttributeError) as error:
            raise UserError(f"{file}: cannot be read ({error}); log in again with `docker login`") from error
        if not all(isinstance(section, dict) for section in sections):
            raise UserError(f"{file}: auths and credHelpers are no maps; log in again with `docker login`")
        return cls(found)

    def find(self, host: str) -> RegistryAuth | None:
        """For one registry; None if nobody logged in there."""
        key = HUB_KEY if host == HUB else host
        helpers = self.config.get("credHelpers") or {}
        helper = helpers.get(key) or helpers.get(host) or self.config.get("credsStore")
        if helper and (login := _ask_helper(str(helper), key)) is not None:
            return login
        entries = [entry for at, entry in (self.config.get("auths") or {}).items() if server_of(at) == host]
        try:
            return next((login for entry in entries if (login := read_entry(entry)) is not None), None)
        except (ValueError, AttributeError, TypeError) as error:
            raise UserError(f"Docker's config.json has no password for {host}: log in again") from error


def _ask_helper(name: str, key: str) -> RegistryAuth | None:
    """By the protocol of docker-credential-helpers. Raises UserError if the program is missing."""
    program = f"docker-credential-{name}"
    try:
        done = subprocess.run([program, "get"], input=key, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError(
            f"{program}, named by Docker's config.json, is not installed: install it or remove it"
        ) from None
    if done.returncode:
        return None  # it has none for this registry
    try:
        found = json.loads(done.stdout)
        username, secret = str(found["Username"]), str(found["Secret"])
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(f"{program} answers no login for {key}: {error!r}") from error
    return RegistryAuth("", "", identity_token=secret) if username == _TOKEN else RegistryAuth(username, secret)
