"""Credentials for registries from Docker's configuration: what `docker login` left there, or a helper that it names."""

import base64
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweyard_cli.errors import UserError

_HUB, _HUB_KEY = "docker.io", "https://index.docker.io/v1/"
_TOKEN = "<token>"
"""A helper's user name for a secret that is an identity token."""


@dataclass(frozen=True, slots=True)
class Login:
    """At one registry: a password, or a token that its realm changes for others."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def header(self) -> str:
        """Value of Authorization."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


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
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            raise UserError(f"{file}: cannot be read ({error}); log in again with `docker login`") from error
        return cls(found if isinstance(found, dict) else {})

    def find(self, host: str) -> Login | None:
        """For one registry; None if nobody logged in there."""
        key = _HUB_KEY if host == _HUB else host
        helper = (self.config.get("credHelpers") or {}).get(host) or self.config.get("credsStore")
        if helper and (login := _ask_helper(str(helper), key)) is not None:
            return login
        auths: Mapping[str, Mapping[str, str]] = self.config.get("auths") or {}
        entry = auths.get(key) or auths.get(f"https://{host}") or {}
        if entry.get("identitytoken"):
            return Login(identity_token=entry["identitytoken"])
        if entry.get("auth"):
            try:
                username, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
            except ValueError as error:
                raise UserError(f"Docker's config.json has no password for {host}: log in again") from error
            return Login(username, password)
        return Login(entry["username"], entry.get("password", "")) if entry.get("username") else None


def _ask_helper(name: str, key: str) -> Login | None:
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
    return Login(identity_token=secret) if username == _TOKEN else Login(username, secret)
