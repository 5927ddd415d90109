"""What the agent says of its node: pure."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from sweyard_operator.cache_agent.held import listed
from sweyard_operator.cache_agent.image_names import registry_host
from sweyard_operator.cache_agent.plan import NodeState
from sweyard_operator.cache_agent.protocol import Assignment, ImageReport, ImageState, NodeReport, PullFailure
from sweyard_operator.cache_agent.registry import Manifest
from sweyard_operator.cache_agent.shared_layers import family_layers, shorten
from sweyard_operator.cache_agent.survey import Trouble

_STEP_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Failure:
    """Of one image's last pull."""

    reason: PullFailure
    message: str
    count: int
    not_before: float


def make_report(
    node: str,
    assignment: Assignment,
    state: NodeState,
    *,
    images: Iterable[str],
    pulling: Set[str],
    failures: Mapping[str, Failure],
    troubles: Mapping[str, Trouble],
    no_room: Set[str],
    manifests: Mapping[str, Manifest],
) -> NodeReport:
    """One node's report; `images` are those to speak of, `troubles` what they wait for."""
    own = set(state.pulled)
    lacking = {image: _tell_no_room(assignment, state, image) for image in no_room}
    said = {
        image: _held_report(image, state, own, manifests)
        or _missing_report(image, pulling, failures, troubles.get(image), lacking.get(image, ""), manifests)
        for image in images
    }
    return NodeReport(
        node=node,
        images=said,
        used_bytes=_round_bytes(state.used_bytes),
        pulled=tuple(image for image in state.pulled if image not in said),
        families=family_layers(assignment.images, manifests),
        registry_pulls=_kept_limits(assignment, pulling),
    )


def _kept_limits(assignment: Assignment, pulling: Set[str]) -> dict[str, int] | None:
    """A limit that was lowered holds once the pulls that began before have ended."""
    if assignment.registry_pulls is None:
        return None
    running: dict[str, int] = {}
    for image in pulling:
        running[registry_host(image)] = running.get(registry_host(image), 0) + 1
    limits = assignment.registry_pulls
    return {host: max(limits.get(host, 0), running.get(host, 0)) for host in sorted({*limits, *running})}


def _held_report(image: str, state: NodeState, own: Set[str], manifests: Mapping[str, Manifest]) -> ImageReport | None:
    held = listed(image, state.held)
    if held is None:
        return None
    known, reason, message = manifests.get(image), None, ""
    if known is not None and known.digest and held.digest and known.digest != held.digest:
        reason = PullFailure.TAG_MOVED
        message = f"the tag names {known.digest} by now, the node holds {held.digest}; name images by digest"
    return ImageReport(
        state=ImageState.CACHED,
        reason=reason,
        message=message,
        num_bytes=held.num_bytes or None,
        digest=shorten(held.digest),
        own=image in own,
    )


def _missing_report(
    image: str,
    pulling: Set[str],
    failures: Mapping[str, Failure],
    trouble: Trouble | None,
    no_room: str,
    manifests: Mapping[str, Manifest],
) -> ImageReport:
    known = manifests.get(image)
    num_bytes = None if known is None else known.num_bytes or None
    if image in pulling:
        return ImageReport(state=ImageState.PULLING, num_bytes=num_bytes)
    if image in failures:
        failure = failures[image]
        return ImageReport(state=ImageState.FAILED, reason=failure.reason, message=failure.message, num_bytes=num_bytes)
    if no_room:
        reason = PullFailure.DISK_BUDGET
        return ImageReport(state=ImageState.FAILED, reason=reason, message=no_room, num_bytes=num_bytes)
    if trouble is not None:
        reason, message = trouble.reason, trouble.message
        return ImageReport(state=ImageState.WAITING, reason=reason, message=message, num_bytes=num_bytes)
    return ImageReport(state=ImageState.WAITING, num_bytes=num_bytes)


def _tell_no_room(assignment: Assignment, state: NodeState, image: str) -> str:
    # Up, as the report itself rounds down: what does not fit is not to look as if it did.
    needed, used = state.needs.by_image.get(image, 0), _round_bytes(state.used_bytes + _STEP_BYTES - 1)
    return (
        f"it needs about {_mib(needed)}, and images, those of other pods among them, take {_mib(used)} of the node's "
        f"disk budget of {_mib(assignment.disk_budget_bytes or 0)}; raise diskBudget, lower copies or name fewer images"
    )


def _mib(num_bytes: int) -> str:
    return f"{-(-num_bytes // 2**20):,} MiB"


def _round_bytes(used: int) -> int:
    """Down to 16 MiB, so that the containers' own noise does not cause a write a pass."""
    return used // _STEP_BYTES * _STEP_BYTES
