"""Free sandboxes against what is wanted: what to make, what to keep, what nobody needs.

A sandbox of an older template (or too old to serve a whole attempt) stands in until its replacement is Ready; at most a
quarter of the wanted ones is replaced at a time.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweyard_operator.plan.sandbox import SandboxPod

_ROLLED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Supply:
    """The comparison's result."""

    missing: tuple[str, ...] = ()
    """Images to make sandboxes of, in order of need."""
    replacing: tuple[str, ...] = ()
    """Images to make in place of stand-ins, after what is missing."""
    standing_in: tuple[SandboxPod, ...] = ()
    """Outdated but needed until replaced; the first are the first to give way."""
    outdated: tuple[SandboxPod, ...] = ()
    """Outdated and not needed: to go at once."""
    unneeded: tuple[SandboxPod, ...] = ()
    """Current but wanted by nobody: to go when their place is needed, or after a while."""


def compare_supply(wanted: Sequence[str], free: Iterable[SandboxPod], outdated_uids: frozenset[str]) -> Supply:
    """Match `wanted` (one image a sandbox, in order of need) with the `free` sandboxes that live."""
    current: dict[str, list[SandboxPod]] = {}
    outdated: dict[str, list[SandboxPod]] = {}
    # Ready ones serve first; among equals the oldest stays, so that nothing changes from pass to pass.
    for pod in sorted(free, key=lambda pod: (not pod.is_ready, pod.created_at, pod.slot)):
        side = outdated if pod.uid in outdated_uids else current
        side.setdefault(pod.image, []).append(pod)
    need = Counter(wanted)
    starting = sum(not pod.is_ready for pods in current.values() for pod in pods)
    missing = _missing(wanted, current, outdated)
    # What is missing may be missing because a stand-in just gave way.
    window = max(0, math.ceil(len(wanted) * _ROLLED_SHARE) - starting - len(missing))
    return Supply(
        missing=missing,
        replacing=_replacing(need, current, outdated)[:window],
        standing_in=tuple(
            pod for image, pods in outdated.items() for pod in reversed(pods[: _gap(image, need, current)])
        ),
        outdated=tuple(pod for image, pods in outdated.items() for pod in pods[_gap(image, need, current) :]),
        unneeded=tuple(pod for image, pods in current.items() for pod in pods[need[image] :]),
    )


def _missing(
    wanted: Sequence[str], current: dict[str, list[SandboxPod]], outdated: dict[str, list[SandboxPod]]
) -> tuple[str, ...]:
    left = Counter({image: len(pods) for image, pods in current.items()})
    left.update({image: len(pods) for image, pods in outdated.items()})
    missing = []
    for image in wanted:
        if left[image] > 0:
            left[image] -= 1
        else:
            missing.append(image)
    return tuple(missing)


def _gap(image: str, need: Counter[str], current: dict[str, list[SandboxPod]]) -> int:
    """Wanted sandboxes of `image` that no current one serves yet."""
    return max(0, need[image] - sum(pod.is_ready for pod in current.get(image, ())))


def _replacing(
    need: Counter[str], current: dict[str, list[SandboxPod]], outdated: dict[str, list[SandboxPod]]
) -> tuple[str, ...]:
    replacing: list[str] = []
    for image, pods in outdated.items():
        replacing += [image] * min(len(pods), max(0, need[image] - len(current.get(image, ()))))
    return tuple(replacing)
