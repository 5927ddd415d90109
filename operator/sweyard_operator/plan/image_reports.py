"""What the nodes say of the images, added up: pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweyard_api.image_cache import ImageFailure
from sweyard_operator.cache_agent.protocol import ImageReport, ImageState, NodeReport, PullFailure
from sweyard_operator.cache_agent.pull_reasons import explain, reason_in
from sweyard_operator.observe.image_cache import ANNOTATION_NODE, LABEL_HOLDS
from sweyard_operator.resources import Manifest, annotations_of, labels_of

MAX_FAILURES, MAX_MESSAGE_CHARACTERS = 20, 500
_PULL_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_COULD_NOT_START = 128
"""Exit code of a container whose program does not exist. Higher ones tell of a signal, or of a node that restarted."""


@dataclass(frozen=True, slots=True)
class CacheTotals:
    """The whole cache in figures."""

    total: int
    cached: int
    """Images held by every node they are assigned to."""
    failed: int
    """Images that some node could not pull."""
    num_bytes: int
    failures: tuple[ImageFailure, ...]
    """Pulls that fail, then images whose tag moved."""
    silent_nodes: tuple[str, ...]
    """Assigned something, said nothing yet."""
    num_reports: int
    held_up: ImageFailure | None = None
    """The first that waits for a registry which wants to be left alone."""


def add_up(placement: Mapping[str, Sequence[str]], reports: Mapping[str, NodeReport]) -> CacheTotals:
    """Pure sum over nodes and images."""
    images: dict[str, list[ImageReport | None]] = {}
    failures: list[ImageFailure] = []
    moved: list[ImageFailure] = []
    held_up: list[ImageFailure] = []
    for node, assigned in placement.items():
        said = reports[node].images if node in reports else {}
        for image in assigned:
            report = said.get(image)
            images.setdefault(image, []).append(report)
            if report is not None and report.state is ImageState.FAILED:
                failures.append(_failure(image, node, report))
            elif report is not None and report.reason is PullFailure.TAG_MOVED:
                moved.append(_failure(image, node, report))
            elif report is not None and report.reason is not None:
                held_up.append(_failure(image, node, report))
    return CacheTotals(
        total=len(images),
        cached=sum(all(r is not None and r.state is ImageState.CACHED for r in found) for found in images.values()),
        failed=len({failure.image for failure in failures}),
        num_bytes=sum(report.used_bytes for report in reports.values()),
        failures=tuple([*failures, *moved, *_unlike(placement, reports)][:MAX_FAILURES]),
        silent_nodes=tuple(node for node, assigned in placement.items() if assigned and node not in reports),
        num_reports=len(reports),
        held_up=next(iter(held_up), None),
    )


def _unlike(placement: Mapping[str, Sequence[str]], reports: Mapping[str, NodeReport]) -> Iterator[ImageFailure]:
    """Nodes that hold under a name what other nodes do not: its tag moved between their pulls."""
    first: dict[str, tuple[str, str]] = {}
    for node, assigned in placement.items():
        said = reports[node].images if node in reports else {}
        for image in assigned:
            digest = said[image].digest if image in said else ""
            if not digest or said[image].reason is not None:
                continue
            other, known = first.setdefault(image, (node, digest))
            if known != digest:
                message = f"holds {digest}, and {other} holds {known}: the tag moved; name images by digest"
                yield ImageFailure(image=image, node=node, reason=PullFailure.TAG_MOVED, message=message)


def _failure(image: str, node: str, report: ImageReport) -> ImageFailure:
    reason = report.reason or PullFailure.PULL_FAILED
    return ImageFailure(image=image, node=node, reason=reason, message=report.message[:MAX_MESSAGE_CHARACTERS])


def reports_of_pods(pods: Sequence[Manifest]) -> dict[str, NodeReport]:
    """The same from the pods of mode `pods`: a container that has an image id holds its image."""
    by_node: dict[str, dict[str, ImageReport]] = {}
    for pod in pods:
        if LABEL_HOLDS not in labels_of(pod) or has_ended(pod):
            continue
        node = annotations_of(pod).get(ANNOTATION_NODE, "")
        statuses = pod.get("status", {}).get("containerStatuses") or ()
        said = by_node.setdefault(node, {})
        wanted = {container["name"]: container["image"] for container in pod["spec"]["containers"]}
        if (words := _unplaced(pod)) is not None:
            refused = ImageReport(state=ImageState.FAILED, reason=PullFailure.UNSCHEDULABLE, message=words)
            said |= dict.fromkeys(wanted.values(), refused)
        for status in statuses:
            said[wanted[status["name"]]] = _of_container(wanted[status["name"]], status)
    return {node: NodeReport(node=node, images=images) for node, images in by_node.items()}


def _unplaced(pod: Manifest) -> str | None:
    """Why the scheduler finds no place for it; None where it has one, or was not looked at yet."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition.get("message", ""))
    return None


def has_ended(pod: Manifest) -> bool:
    """Evicted, killed or lost: it keeps its images from nobody any more, and its name from its successor.

    One whose containers all ended by themselves, as those of images without a shell do, still holds their images.
    """
    status = pod.get("status") or {}
    if status.get("phase") not in ("Failed", "Succeeded"):
        return False
    states = [(one.get("state") or {}).get("terminated") for one in status.get("containerStatuses") or ()]
    is_idle = bool(states) and all(ended and ended["exitCode"] <= _COULD_NOT_START for ended in states)
    return bool(status.get("reason")) or not is_idle


def _of_container(image: str, status: Manifest) -> ImageReport:
    if status.get("imageID"):
        return ImageReport(state=ImageState.CACHED)
    waiting = (status.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in _PULL_REASONS:
        return ImageReport(state=ImageState.PULLING)
    message = str(waiting.get("message", ""))
    reason = PullFailure.NOT_FOUND if waiting["reason"] == "InvalidImageName" else reason_in(message)
    return ImageReport(state=ImageState.FAILED, reason=reason, message=explain(image, reason, message))
