"""Trainer pods in which a container that somebody added, such as a mesh's proxy, runs on after the trainer has ended.

A Job waits for all containers of its pods, and so the GPUs of such a pod would be held for good.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sweyard_operator.observe.pod_state import PodState
from sweyard_operator.plan.plan import Deletion, Patch
from sweyard_operator.resources import PODS

GRACE = timedelta(seconds=30)
"""For containers that end soon after, as those do that notice."""

_LAST_SECONDS = 5
"""Of what runs on in a pod that is not needed any more."""


def is_outlived(pod: PodState, now: datetime) -> bool:
    """Whether it has waited long enough."""
    return pod.outlived is not None and now - pod.outlived.since >= GRACE


def have_done_their_work(pods: Sequence[PodState], num_ranks: int, now: datetime) -> bool:
    """Whether every rank was successful, though not every pod ends; if each does, the Job says so itself."""
    waiting = [pod for pod in pods if is_outlived(pod, now) and not _has_failed(pod)]
    succeeded = [pod for pod in pods if pod.phase == "Succeeded"]
    return bool(waiting) and len(waiting) + len(succeeded) == num_ranks


def end_failed(namespace: str, pods: Iterable[PodState], now: datetime) -> tuple[Patch, ...]:
    """Of a rank that failed the pod is ended by its kubelet, which makes it Failed and keeps its log: then the Job, and
    with it the gang, has failed, too."""
    return tuple(
        Patch(
            PODS,
            namespace,
            pod.name,
            (
                {"op": "test", "path": "/metadata/uid", "value": pod.uid},
                {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1},
            ),
        )
        for pod in pods
        if is_outlived(pod, now) and _has_failed(pod) and not pod.is_terminating
    )


def plan_outlived(namespace: str, pods: Iterable[PodState]) -> tuple[Deletion, ...]:
    """With their Job: the minutes for the trainer's checkpoint are no others' to use.

    A kubelet keeps to what it was told first, so a pod that is ending already cannot be hurried.
    """
    return tuple(
        Deletion(PODS, namespace, pod.name, pod.uid, grace_period_seconds=_LAST_SECONDS)
        for pod in pods
        if pod.outlived is not None and not pod.is_terminating
    )


def _has_failed(pod: PodState) -> bool:
    return pod.outlived is not None and pod.outlived.exit_code != 0
