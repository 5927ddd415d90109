"""Credentials for a registry: from the entries of Docker's configuration, which `docker login` writes and Secrets of
type dockerconfigjson have, to what a registry or its realm is told."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sweyard_operator.cache_agent.registry_hosts import HUB

HUB_KEY = "https://index.docker.io/v1/"
"""Docker Hub in Docker's configuration: the URL of its old index."""
_HUB_INDEX = "index.docker.io"
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_CLIENT = "sweyard"


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """Credentials for one registry: a password, or a token that its realm changes for others."""

    username: str
    password: str = field(repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """Value of Authorization that gives the password."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


def server_of(key: str) -> str:
    """Host, and path if there is one, that an entry's key means, with neither scheme nor version of the API."""
    host, _, path = key.removeprefix("https://").removeprefix("http://").partition("/")
    host = HUB if host == _HUB_INDEX else host
    path = "" if path.rstrip("/") in ("v1", "v2") else path.rstrip("/")
    return f"{host}/{path}" if path else host


def read_entry(entry: Mapping[str, Any]) -> RegistryAuth | None:
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


def read_challenge(challenge: str) -> dict[str, str]:
    """Fields of a WWW-Authenticate header: `realm`, and what its realm is to be asked for."""
    return dict(_CHALLENGE.findall(challenge))


def refresh_form(identity_token: str, asked: Mapping[str, str]) -> dict[str, str]:
    """What a realm takes an identity token by: the OAuth 2 form of the distribution project's token authentication."""
    return {"grant_type": "refresh_token", "client_id": _CLIENT, "refresh_token": identity_token, **asked}
