"""Registry credentials from mounted docker config files."""

import base64
import json
from pathlib import Path

from sweyard_operator.cache_agent.cri import RegistryAuth


def read_pull_secrets(directory: Path) -> dict[str, RegistryAuth]:
    """Credentials by registry host, from every `.dockerconfigjson` below `directory`."""
    found: dict[str, RegistryAuth] = {}
    for file in sorted(directory.glob("*/.dockerconfigjson")):
        for server, entry in json.loads(file.read_text()).get("auths", {}).items():
            host = server.removeprefix("https://").removeprefix("http://").partition("/")[0]
            # Docker Hub's config key is a URL of its old index; image names say docker.io.
            host = "docker.io" if host == "index.docker.io" else host
            found[host] = _entry_auth(host, entry)
    return found


def _entry_auth(host: str, entry: dict[str, str]) -> RegistryAuth:
    if "auth" in entry:
        username, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        return RegistryAuth(host, username, password)
    return RegistryAuth(host, entry.get("username", ""), entry.get("password", ""))
