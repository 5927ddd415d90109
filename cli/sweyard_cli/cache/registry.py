"""Sizes of images from their registries, by manifest alone: nothing is pulled (OCI distribution specification 1.1)."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sweyard_operator.cache_agent.image_names import normalize

_TIMEOUT_SECONDS = 10.0
_AT_ONCE = 16
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_HUB, _HUB_API = "docker.io", "registry-1.docker.io"
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')

Layers = Mapping[str, int]
"""Compressed bytes by digest."""


@dataclass(slots=True)
class Registry:
    """Reads manifests without credentials; a token that a registry hands to anybody is fetched once a repository."""

    architecture: str = "amd64"
    _tokens: dict[str, str] = field(default_factory=dict)

    def layers(self, image: str) -> Layers:
        """Raises OSError or ValueError, in words, where the registry does not tell."""
        host, _, rest = normalize(image).partition("/")
        repository, reference = _split(rest)
        base = f"{_scheme(host)}://{_HUB_API if host == _HUB else host}/v2/{repository}/manifests/"
        manifest = self._get(base + reference)
        if manifest.get("mediaType") in _INDEXES or "manifests" in manifest:
            manifest = self._get(base + self._choose(manifest))
        return {str(layer["digest"]): int(layer["size"]) for layer in manifest["layers"]}

    def _choose(self, index: Mapping[str, Any]) -> str:
        for entry in index["manifests"]:
            platform = entry.get("platform") or {}
            if (platform.get("os"), platform.get("architecture")) == ("linux", self.architecture):
                return str(entry["digest"])
        raise ValueError(f"the registry has no image for linux/{self.architecture}")

    def _get(self, url: str) -> dict[str, Any]:
        repository = url.partition("/manifests/")[0]
        try:
            return _fetch(url, self._tokens.get(repository))
        except urllib.error.HTTPError as error:
            challenge = error.headers.get("WWW-Authenticate", "")
            if error.code != 401 or not challenge.startswith("Bearer ") or repository in self._tokens:
                raise
            self._tokens[repository] = _fetch_token(challenge)
        return _fetch(url, self._tokens[repository])


def read_layers(images: Iterable[str], registry: Registry) -> tuple[dict[str, Layers], dict[str, str]]:
    """Layers by image, and why there are none, for the images whose registry does not tell."""

    def read(image: str) -> Layers | str:
        try:
            return registry.layers(image)
        except urllib.error.HTTPError as error:
            return f"the registry answers {error.code} {error.reason}"
        except (OSError, ValueError, KeyError) as error:
            return str(getattr(error, "reason", None) or error)

    names = list(images)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(names, pool.map(read, names), strict=True))
    layers = {image: answer for image, answer in answers.items() if not isinstance(answer, str)}
    return layers, {image: answer for image, answer in answers.items() if isinstance(answer, str)}


def _split(rest: str) -> tuple[str, str]:
    repository, at, digest = rest.partition("@")
    if at:
        return repository, digest
    repository, _, tag = rest.rpartition(":")
    return repository, tag


def _scheme(host: str) -> str:
    """As container runtimes have it: a registry on this machine speaks HTTP."""
    name = host.partition(":")[0]
    return "http" if name == "localhost" or name.startswith("127.") else "https"


def _fetch(url: str, token: str | None) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Accept": ", ".join((*_INDEXES, *_MANIFESTS))})
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _fetch_token(challenge: str) -> str:
    fields = dict(_CHALLENGE.findall(challenge))
    query = {name: fields[name] for name in ("service", "scope") if name in fields}
    answer = _fetch(f"{fields['realm']}?{urllib.parse.urlencode(query)}", None)
    return str(answer.get("token") or answer["access_token"])
