"""Images as data sets of repository tasks have them: families of a common base, sizes between 1 and 4 GB."""

import random
from collections.abc import Iterable, Sequence
from hashlib import sha256

from sweyard_operator.cache_agent.image_names import family_of
from sweyard_operator.cache_agent.registry import Manifest
from sweyard_operator.plan.placement import CacheImage

GB = 10**9
_LEAST_BYTES, _MOST_BYTES = 1 * GB, 4 * GB
_MEDIAN_GB, _SIGMA = 1.8, 0.35


def make_images(count: int, *, num_families: int, seed: int) -> list[CacheImage]:
    """Lognormal sizes of 1 to 4 GB, in shuffled order of need; up to half of an image is its family's base."""
    rng = random.Random(seed)
    bases = [rng.uniform(0.3, 1.0) * GB for _ in range(num_families)]
    # Some repositories have ten times the tasks of others.
    popularity = [rng.lognormvariate(0.0, 1.0) for _ in range(num_families)]
    families = rng.choices(range(num_families), popularity, k=count)
    return [
        _make_image(rng, f"registry.example/tasks/family{family}:{i}", bases[family])
        for i, family in enumerate(families)
    ]


def _make_image(rng: random.Random, name: str, base_bytes: float) -> CacheImage:
    num_bytes = int(min(_MOST_BYTES, max(_LEAST_BYTES, rng.lognormvariate(0.0, _SIGMA) * _MEDIAN_GB * GB)))
    return CacheImage(name, num_bytes, int(min(base_bytes, num_bytes / 2)))


def make_manifests(images: Sequence[CacheImage]) -> dict[str, Manifest]:
    """As a registry has them: the base of its family, whole, and a layer of its own."""
    bases: dict[str, int] = {}
    for image in images:
        family = family_of(image.name)
        bases[family] = max(bases.get(family, 0), image.shared_bytes)
    manifests = {}
    for image in images:
        assert image.num_bytes is not None
        base = bases[family_of(image.name)]
        layers = {_digest(family_of(image.name), "base"): base, _digest(image.name, "own"): image.num_bytes - base}
        manifests[image.name] = Manifest(_digest(image.name, "manifest"), layers)
    return manifests


def _digest(*parts: str) -> str:
    return f"sha256:{sha256(' '.join(parts).encode()).hexdigest()}"


def layers_on_disk(manifests: Iterable[Manifest]) -> int:
    """What one node spends on them: each layer once."""
    return sum({digest: size for one in manifests for digest, size in (one.layers or {}).items()}.values())


def bytes_on_disk(images: Sequence[CacheImage]) -> int:
    """What one node spends on `images`: the base of a family once."""
    bases: dict[str, int] = {}
    own_bytes = 0
    for image in images:
        assert image.num_bytes is not None
        family = family_of(image.name)
        own_bytes += image.num_bytes - image.shared_bytes
        bases[family] = max(bases.get(family, 0), image.shared_bytes)
    return own_bytes + sum(bases.values())
