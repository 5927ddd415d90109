"""Sorts a pool's pods by state; every pod is in exactly one group."""

from collections.abc import Collection, Iterable
from datetime import datetime

from sweyard_operator.plan.failures import find_failure
from sweyard_operator.plan.pool_state import Census
from sweyard_operator.plan.sandbox import Failure, SandboxPod


def take_census(
    pods: Iterable[SandboxPod], *, now: datetime, startup_deadline_seconds: float, discarded: Collection[str] = ()
) -> Census:
    """A claimed pod counts as failed only once it has ended: while it lives, it is its holder's to judge.

    A released one is as good as one that starts, unless its UID is among `discarded`.
    """
    terminating: list[SandboxPod] = []
    failed: list[tuple[SandboxPod, Failure | None]] = []
    claimed: list[SandboxPod] = []
    free: list[SandboxPod] = []
    spent: list[SandboxPod] = []
    for pod in pods:
        failure = find_failure(pod, now=now, startup_deadline_seconds=startup_deadline_seconds)
        if pod.is_terminating:
            terminating.append(pod)
        elif pod.has_ended or (failure is not None and pod.is_free):
            failed.append((pod, failure))
        elif pod.uid in discarded or pod.is_spoilt:
            spent.append(pod)
        else:
            (free if pod.is_free else claimed).append(pod)
    return Census(now, tuple(terminating), tuple(failed), tuple(claimed), tuple(free), tuple(spent))
