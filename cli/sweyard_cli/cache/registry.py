"""Sizes of images from their registries, by manifest alone: nothing is pulled (OCI distribution specification 1.1)."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from sweyard_cli.cache.registry_client import RegistryClient, RegistryError
from sweyard_operator.cache_agent.image_names import normalize, split_reference
from sweyard_operator.cache_agent.manifests import ManifestDocument, choose_child, read_manifest

_AT_ONCE = 16

Layers = Mapping[str, int]
"""Compressed bytes by digest."""


@dataclass(slots=True)
class Registry:
    """Reads manifests."""

    client: RegistryClient = field(default_factory=RegistryClient)
    architecture: str = "amd64"

    def layers(self, image: str) -> Layers:
        """Raises RegistryError, OSError, ValueError or LookupError, in words, where the registry does not tell."""
        host, _, rest = normalize(image).partition("/")
        repository, reference = split_reference(rest)
        found = self._read(host, repository, reference)
        if found.manifests is not None:
            found = self._read(host, repository, choose_child(found.manifests, self.architecture))
        return {layer.digest: layer.size for layer in found.layers or ()}

    def _read(self, host: str, repository: str, reference: str) -> ManifestDocument:
        _, body = self.client.fetch(host, f"/v2/{repository}/manifests/{reference}")
        return read_manifest(body)


def read_layers(images: Iterable[str], registry: Registry) -> tuple[dict[str, Layers], dict[str, str]]:
    """Layers by image, and why there are none, for the images whose registry does not tell."""

    def read(image: str) -> Layers | str:
        try:
            return registry.layers(image)
        except (RegistryError, OSError, ValueError, LookupError) as error:
            return str(error)

    names = list(images)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(names, pool.map(read, names), strict=True))
    layers = {image: answer for image, answer in answers.items() if not isinstance(answer, str)}
    return layers, {image: answer for image, answer in answers.items() if isinstance(answer, str)}
