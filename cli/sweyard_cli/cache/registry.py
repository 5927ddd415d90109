"""Sizes of images from their registries, by manifest alone: nothing is pulled (OCI distribution specification 1.1)."""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sweyard_cli.cache.registry_client import INDEXES, RegistryClient, RegistryError
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.registry import split_reference

_AT_ONCE = 16

Layers = Mapping[str, int]
"""Compressed bytes by digest."""


@dataclass(slots=True)
class Registry:
    """Reads manifests."""

    client: RegistryClient = field(default_factory=RegistryClient)
    architecture: str = "amd64"

    def layers(self, image: str) -> Layers:
        """Raises RegistryError, OSError or ValueError, in words, where the registry does not tell."""
        host, _, rest = normalize(image).partition("/")
        repository, reference = split_reference(rest)
        manifest = self._read(host, repository, reference)
        if manifest.get("mediaType") in INDEXES or "manifests" in manifest:
            manifest = self._read(host, repository, self._choose(manifest))
        return {str(layer["digest"]): int(layer["size"]) for layer in manifest["layers"]}

    def _choose(self, index: Mapping[str, Any]) -> str:
        for entry in index["manifests"]:
            platform = entry.get("platform") or {}
            if (platform.get("os"), platform.get("architecture")) == ("linux", self.architecture):
                return str(entry["digest"])
        raise ValueError(f"the registry has no image for linux/{self.architecture}")

    def _read(self, host: str, repository: str, reference: str) -> dict[str, Any]:
        _, body = self.client.fetch(host, f"/v2/{repository}/manifests/{reference}")
        found: dict[str, Any] = json.loads(body)
        return found


def read_layers(images: Iterable[str], registry: Registry) -> tuple[dict[str, Layers], dict[str, str]]:
    """Layers by image, and why there are none, for the images whose registry does not tell."""

    def read(image: str) -> Layers | str:
        try:
            return registry.layers(image)
        except (RegistryError, OSError, ValueError, KeyError) as error:
            return str(error)

    names = list(images)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(names, pool.map(read, names), strict=True))
    layers = {image: answer for image, answer in answers.items() if not isinstance(answer, str)}
    return layers, {image: answer for image, answer in answers.items() if isinstance(answer, str)}
