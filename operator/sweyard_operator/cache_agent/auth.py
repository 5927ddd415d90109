"""Registry credentials from mounted docker config files, read whenever one is needed: some last for hours only, and the
kubelet puts their successors into the same place."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sweyard_operator.cache_agent.cri import RegistryAuth

FindAuth = Callable[[str], RegistryAuth | None]
"""Credentials for a registry host as they are now; None if there are none."""


@dataclass(frozen=True, slots=True)
class PullSecrets:
    """Those mounted below a directory."""

    directory: Path

    def find(self, host: str) -> RegistryAuth | None:
        """See FindAuth."""
        return read_pull_secrets(self.directory).get(host)


def read_pull_secrets(directory: Path) -> dict[str, RegistryAuth]:
    """Credentials by registry host, from every `.dockerconfigjson` below `directory`."""
    found: dict[str, RegistryAuth] = {}
    for file in sorted(directory.glob("*/.dockerconfigjson")):
        for server, entry in json.loads(file.read_text()).get("auths", {}).items():
            host = server.removeprefix("https://").removeprefix("http://").partition("/")[0]
            # Docker Hub's config key is a URL of its old index; image names say docker.io.
            host = "docker.io" if host == "index.docker.io" else host
            found[host] = _entry_auth(entry)
    return found


def _entry_auth(entry: dict[str, str]) -> RegistryAuth:
    if "auth" in entry:
        username, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        return RegistryAuth(username, password)
    return RegistryAuth(entry.get("username", ""), entry.get("password", ""))
