"""Why no sandbox became free: as a type, and in the words of the pool's status. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweyard_sandbox.errors import WaitingReason
from sweyard_sandbox.pool.pods import SandboxPod

_OF_CONDITIONS = {
    "QuotaExceeded": WaitingReason.QUOTA_EXCEEDED,
    "Forbidden": WaitingReason.FORBIDDEN,
    "Invalid": WaitingReason.INVALID_SPEC,
    "InvalidSpec": WaitingReason.INVALID_SPEC,
    "Unschedulable": WaitingReason.UNSCHEDULABLE,
    "ImagePull": WaitingReason.IMAGE_PULL,
    "AtCapacity": WaitingReason.CAP_REACHED,
}
_TROUBLE = ("Unschedulable", "ImagePull", "Failing")


@dataclass(frozen=True, slots=True)
class Want:
    """What a claim, or a batch of claims, lacks."""

    image: str
    number: int = 1
    """Sandboxes of the image that are wanted at the same moment."""
    batch: int = 1
    """Sandboxes of all images that are."""

    def __str__(self) -> str:
        return f"no free sandbox of {self.image}" if self.number == 1 else f"not {self.number} free of {self.image}"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a claim waits for."""

    reason: WaitingReason
    message: str


def explain_waiting(
    want: Want,
    *,
    pool: Mapping[str, Any] | None,
    counts: Mapping[str, int],
    starting: Sequence[SandboxPod] = (),
    watch_error: str = "",
) -> Waiting:
    """What stands in the way of `want`: the first reason is the type, all are in the message.

    `starting`: the pods of the image that are not Ready yet; `counts`: all pods by state.
    """
    found: list[tuple[WaitingReason, str]] = []
    if watch_error:
        found.append((WaitingReason.API_UNREACHABLE, f"the API server is not heard: {watch_error}"))
    if pool is not None:
        found += _find_beyond_cap(want, pool)
        found += _find_in_pods(starting)
        found += _find_in_pool(pool)
    elif not watch_error:
        found.append((WaitingReason.POOL_MISSING, "there is no such RolloutPool"))
    found.append((WaitingReason.QUEUED, ""))
    seen = ", ".join(f"{number} {state}" for state, number in counts.items()) or "none"
    words = dict.fromkeys(text for _, text in found if text)
    return Waiting(found[0][0], f"{want}: " + "; ".join([*words, f"sandboxes of all images: {seen}"]))


def _find_beyond_cap(want: Want, pool: Mapping[str, Any]) -> list[tuple[WaitingReason, str]]:
    cap = (pool.get("spec") or {}).get("replicas")
    if cap is None or cap >= want.batch:
        return []
    if cap == 0:
        return [(WaitingReason.CAP_REACHED, "the pool is scaled to 0 sandboxes (spec.replicas)")]
    text = f"{want.batch} at once are more than the pool's cap of {cap} (spec.replicas): raise it or ask for fewer"
    return [(WaitingReason.CAP_REACHED, text)]


def _find_in_pods(starting: Sequence[SandboxPod]) -> list[tuple[WaitingReason, str]]:
    """The image's own pods know best; what is in trouble comes before what takes its time."""
    counts = Counter((pod.waits_for, pod.waiting_message) for pod in starting if pod.waits_for is not None)
    entries = sorted(counts.items(), key=lambda entry: (entry[0][0] not in _TROUBLE, -entry[1]))
    return [
        (reason, f"{number} of them {reason}" + (f": {message}" if message else ""))
        for (reason, message), number in entries
        if reason is not None
    ]


def _find_in_pool(pool: Mapping[str, Any]) -> list[tuple[WaitingReason, str]]:
    status, cap = pool.get("status") or {}, (pool.get("spec") or {}).get("replicas")
    conditions = {entry["type"]: entry for entry in status.get("conditions") or ()}
    if not conditions:
        text = "the operator has not said anything about the pool yet; is it running?"
        return [(WaitingReason.OPERATOR_SILENT, text)]
    found = []
    if cap and status.get("claimed", 0) >= cap:
        text = f"the pool's cap of {cap} sandboxes is reached (spec.replicas) and all of them are claimed"
        found.append((WaitingReason.CAP_REACHED, text))
    for kind, bad in (("Degraded", "True"), ("Progressing", "False"), ("Ready", "False"), ("Progressing", "True")):
        entry = conditions.get(kind, {})
        reason = entry.get("reason")
        if entry.get("status") == bad and reason not in (None, "Settled"):
            found.append((_type_of(kind, reason), f"{reason}: {entry.get('message', '')}"))
    return found


def _type_of(kind: str, reason: str) -> WaitingReason:
    if kind == "Progressing" or reason == "SandboxesStarting":
        return _OF_CONDITIONS.get(reason, WaitingReason.QUEUED)
    return _OF_CONDITIONS.get(reason, WaitingReason.FAILING)
