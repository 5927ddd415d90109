"""Which nodes a sandbox must start on, where a pool requires its image there. Pure.

Invariant: whoever is bound is bound to nodes that hold its image, are Ready and schedulable, and that the pool's
nodeSelector chooses; without such a node nobody is.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import ImageState, NodeReport
from sweyard_operator.plan.preferred_nodes import holds
from sweyard_operator.plan.sandbox import Failure, SandboxPod

MAX_REQUIRED = 64
"""Each is a term of its own in each pod."""


@dataclass(frozen=True, slots=True)
class Binding:
    """When the pool's sandboxes must start where their image is."""

    nodes: Set[str] = frozenset()
    """That could take them; none where the pool does not require it."""
    late_images: Set[str] = frozenset()
    """A sandbox of theirs missed the startup deadline: no further one is to pull where nobody has it."""
    unplaced_images: Set[str] = frozenset()
    """A sandbox of theirs waited for a place in vain, lately."""


NO_BINDING = Binding()


def was_late(failure: Failure) -> bool:
    """The startup deadline passed in a pull."""
    return failure.reason in ("StartupDeadline", "ImagePull")


def found_no_place(failure: Failure) -> bool:
    """The startup deadline passed, and no node had taken the sandbox."""
    return failure.reason == "Unschedulable"


def learn(binding: Binding, failed: Iterable[tuple[SandboxPod, Failure | None]]) -> Binding:
    """What replaces those that failed just now knows why they did."""
    found = [(pod.image, failure) for pod, failure in failed if failure is not None and pod.is_free]
    return replace(
        binding,
        late_images=binding.late_images | {image for image, failure in found if was_late(failure)},
        unplaced_images=binding.unplaced_images | {image for image, failure in found if found_no_place(failure)},
    )


def required_nodes(image: str, pull_from: str, reports: Mapping[str, NodeReport], binding: Binding) -> tuple[str, ...]:
    """Nodes to choose from for a sandbox of `image`; none where it may start anywhere."""
    if not binding.nodes or image in binding.unplaced_images:
        return ()
    if image not in binding.late_images and not _is_settled(pull_from, reports):
        return ()
    holders = sorted(node for node, report in reports.items() if node in binding.nodes and holds(report, pull_from))
    return () if len(holders) == len(binding.nodes) else tuple(holders)


def _is_settled(image: str, reports: Mapping[str, NodeReport]) -> bool:
    """All nodes that are to hold it say that they do: reports speak of what is assigned."""
    found = (report.images.get(image) or report.images.get(normalize(image)) for report in reports.values())
    states = {said.state for said in found if said is not None}
    return states == {ImageState.CACHED}
