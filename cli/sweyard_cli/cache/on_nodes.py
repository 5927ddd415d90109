"""What nodes hold before a plan is made, by the reports of their agents, whichever cache these work for: pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweyard_api.constants import LABEL_CACHE
from sweyard_cli.cache.wanted import Wanted
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import ImageState, NodeReport
from sweyard_operator.observe.image_cache import read_assigned, read_reports
from sweyard_operator.plan.image_reports import reports_of_pods
from sweyard_operator.plan.mirrors import mirrored
from sweyard_operator.plan.placement import CacheNode
from sweyard_operator.resources import labels_of

Manifests = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Places:
    """Nodes to plan for, and what is on them."""

    nodes: tuple[CacheNode, ...]
    """With what the cache that is planned holds there and has told them: the operator leaves it where it is."""
    held: Mapping[str, frozenset[str]] | None = None
    """Images of the plan by node that reports, whoever brought them; None where no node was asked."""


def find_places(
    wanted: Wanted, namespace: str, budgets: Mapping[str, int | None], config_maps: Manifests, pods: Manifests
) -> Places:
    """Of the nodes in `budgets`, by reports, assignments and holding pods of any cache."""
    asked = {normalize(mirrored(image, wanted.spec.mirrors)): image for image in wanted.images}
    own = Reported(config_maps=_of(wanted.name, namespace, config_maps), pods=_of(wanted.name, namespace, pods))
    kept, told = own.images(asked), read_assigned(wanted.name, own.config_maps)
    nodes = tuple(
        CacheNode(name, budget, held=kept.get(name, ()), assigned=_asked(told.get(name, ()), asked))
        for name, budget in budgets.items()
    )
    return Places(nodes, Reported(config_maps, pods).images(asked))


@dataclass(frozen=True, slots=True)
class Reported:
    """Objects that say what nodes hold."""

    config_maps: Manifests
    pods: Manifests

    def images(self, asked: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """By node that reports: those of `asked` (full name to the name it is asked for by) that it holds."""
        held: dict[str, set[str]] = {}
        for node, report in self._reports():
            held.setdefault(node, set()).update(_asked(_held(report), asked))
        return {node: frozenset(images) for node, images in held.items()}

    def _reports(self) -> Iterator[tuple[str, NodeReport]]:
        # Several caches may tell of one node.
        for config_map in self.config_maps:
            yield from read_reports([config_map]).items()
        yield from reports_of_pods(self.pods).items()


def _held(report: NodeReport) -> Iterable[str]:
    return [*report.pulled, *(image for image, said in report.images.items() if said.state is ImageState.CACHED)]


def _asked(images: Iterable[str], asked: Mapping[str, str]) -> Collection[str]:
    return [asked[name] for name in map(normalize, images) if name in asked]


def _of(cache: str, namespace: str, items: Manifests) -> Manifests:
    return [
        item
        for item in items
        if item["metadata"]["namespace"] == namespace and labels_of(item).get(LABEL_CACHE) == cache
    ]
