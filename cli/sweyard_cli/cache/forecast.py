"""What a cache will come to, before anything is pulled: pure, by the operator's own placement."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from sweyard_cli.cache.on_nodes import Places
from sweyard_operator.cache_agent.image_names import family_of
from sweyard_operator.plan.placement import CacheImage, place

Layers = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeForecast:
    """One node."""

    name: str
    num_images: int
    num_held: int
    """Of these, on the node already."""
    num_bytes: int
    """Compressed, layers that images share once; 0 where no sizes are known."""
    pull_bytes: int
    """Of these, in layers that no image on the node has."""
    disk_bytes: int
    """What all of them come to on disk."""
    budget_bytes: int | None
    left_out: tuple[str, ...] = ()
    """Images that the budget has no room for: the last in order of need."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The whole cache."""

    images: tuple[str, ...]
    num_families: int
    copies: int
    nodes: tuple[NodeForecast, ...]
    num_sized: int
    """Images whose layers are known; what is said of bytes takes the others for their like."""
    single_bytes: int
    """Compressed bytes of one copy of each image, layers shared by all of them once."""
    unfit: tuple[str, ...]
    """Images that no node has room for."""
    num_reporting: int | None
    """Nodes whose agents told what they hold; None where none was asked."""

    @property
    def num_images(self) -> int:
        """Copies, over all nodes."""
        return sum(node.num_images for node in self.nodes)

    @property
    def num_held(self) -> int:
        """Copies that are there already."""
        return sum(node.num_held for node in self.nodes)

    @property
    def num_bytes(self) -> int:
        """Compressed, of all copies."""
        return sum(node.num_bytes for node in self.nodes)

    @property
    def pull_bytes(self) -> int:
        """Compressed, over all nodes."""
        return sum(node.pull_bytes for node in self.nodes)

    @property
    def most_pulled_bytes(self) -> int:
        """By the node that pulls the most: it is the last to be ready."""
        return max((node.pull_bytes for node in self.nodes), default=0)


def plain_forecast(told: Forecast) -> dict[str, Any]:
    """For machines, with what its properties tell."""
    sums = ("num_images", "num_held", "num_bytes", "pull_bytes", "most_pulled_bytes")
    return {**asdict(told), **{name: getattr(told, name) for name in sums}}


def forecast(
    images: Sequence[str],
    layers: Mapping[str, Layers],
    places: Places,
    copies: int,
    *,
    disk_bytes_per_compressed: float,
) -> Forecast:
    """Place `images` as the operator would, with the sizes that are known."""
    nodes, held = places.nodes, places.held or {}
    usual = sum(sum(found.values()) for found in layers.values()) // max(1, len(layers))
    # An image of unknown layers is one layer of its own, of the usual size.
    known = {image: layers.get(image) or {image: usual} for image in images}
    placed = place(weigh(images, layers), nodes, copies)
    budgets = {node.name: node.budget_bytes for node in nodes}
    forecasts = tuple(
        _forecast_node(name, found, held.get(name, frozenset()), budgets[name], known, disk_bytes_per_compressed)
        for name, found in placed.items()
    )
    on_disk = {image for node in forecasts for image in set(placed[node.name]) - set(node.left_out)}
    is_held = copies > 0 and bool(nodes)
    return Forecast(
        images=tuple(images),
        num_families=len({family_of(image) for image in images}),
        copies=min(copies, len(nodes)),
        nodes=forecasts,
        num_sized=sum(image in layers for image in images),
        single_bytes=sum({digest: size for found in known.values() for digest, size in found.items()}.values()),
        unfit=tuple(image for image in images if is_held and image not in on_disk),
        num_reporting=None if places.held is None else sum(node.name in places.held for node in nodes),
    )


def _forecast_node(
    name: str,
    placed: Sequence[str],
    held: Set[str],
    budget_bytes: int | None,
    layers: Mapping[str, Layers],
    factor: float,
) -> NodeForecast:
    there = {digest for image in held for digest in layers[image]}
    seen: set[str] = set()
    num_bytes, pull_bytes, left_out = 0, 0, []
    for image in placed:
        added = {digest: size for digest, size in layers[image].items() if digest not in seen}
        if budget_bytes is not None and (num_bytes + sum(added.values())) * factor > budget_bytes:
            left_out.append(image)
            continue
        num_bytes += sum(added.values())
        pull_bytes += sum(size for digest, size in added.items() if digest not in there)
        seen.update(added)
    return NodeForecast(
        name,
        num_images=len(placed) - len(left_out),
        num_held=len(held & set(placed) - set(left_out)),
        num_bytes=num_bytes,
        pull_bytes=pull_bytes,
        disk_bytes=int(num_bytes * factor),
        budget_bytes=budget_bytes,
        left_out=tuple(left_out),
    )


def weigh(images: Sequence[str], layers: Mapping[str, Layers]) -> list[CacheImage]:
    """For placement: shared is what every image of a family that has known layers has."""
    common: dict[str, set[str]] = {}
    members = Counter(family_of(image) for image in images if image in layers)
    for image in images:
        if image in layers:
            family = family_of(image)
            common[family] = common[family] & set(layers[image]) if family in common else set(layers[image])
    weighed = []
    for image in images:
        family, found = family_of(image), layers.get(image)
        if found is None:
            weighed.append(CacheImage(image))
            continue
        shared = sum(found[digest] for digest in common[family]) if members[family] > 1 else 0
        weighed.append(CacheImage(image, sum(found.values()), shared))
    return weighed


def list_sizes(images: Sequence[str], layers: Mapping[str, Layers]) -> str:
    """A line for each image, as the `images` key of an imagesFrom ConfigMap has them."""
    weighed = weigh(images, layers)
    fields = [(one.name, *(() if one.num_bytes is None else (one.num_bytes, one.shared_bytes))) for one in weighed]
    return "".join(" ".join(map(str, line)) + "\n" for line in fields)
