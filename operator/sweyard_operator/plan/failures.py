"""Typed reasons: from what kubelet, scheduler and node controller wrote on a pod to one word and their own sentence."""

from datetime import datetime

from sweyard_operator.plan.plan import Refusal
from sweyard_operator.plan.sandbox import Failure, SandboxPod

NODE_LOST_AFTER_SECONDS = 40.0
"""A running sandbox that lost its readiness for this long, with its containers still ready by the
kubelet's last word, is on a node that stopped reporting."""

_PULL_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_IMAGE_AT_FAULT = ("not found", "manifest unknown", "unauthorized", "denied", "invalid reference", "forbidden")
_LOST = ("NodeLost", "NodeShutdown", "Terminated", "Shutdown", "DeletionByTaintManager")
_EVICTED = ("Evicted", "EvictionByEvictionAPI", "PreemptionByScheduler", "TerminationByKubelet", "Preempting")


def find_failure(pod: SandboxPod, *, now: datetime, startup_deadline_seconds: float) -> Failure | None:
    """Why `pod` must be replaced; None while it serves or may still come up, or was merely as old as it may get."""
    if pod.has_ended:
        return find_end(pod)
    if pod.is_ready or pod.release:
        return None
    if pod.are_containers_ready:
        return _find_lost_node(pod, now)
    if (now - pod.created_at).total_seconds() < startup_deadline_seconds:
        return None
    trouble = find_trouble(pod)
    if trouble is not None:
        return trouble
    return Failure("StartupDeadline", f"not ready after {startup_deadline_seconds:g} s on {pod.node}", True)


def find_end(pod: SandboxPod) -> Failure | None:
    """Why a pod ended; None for one that still lives, reached its lifetime, or ended since it was deleted."""
    reason, message = pod.status_reason, pod.status_message
    if not pod.has_ended or reason == "DeadlineExceeded":
        return None
    if pod.terminated_reason == "OOMKilled":
        return Failure("OOMKilled", message or "the sandbox container went over its memory limit")
    if reason in _LOST:
        return Failure("NodeLost", message or reason, True)
    if reason in _EVICTED:
        # The kubelet says so when the node, not the pod, was short of something.
        return Failure("Evicted", message or reason, "low on resource" in message)
    if reason.startswith("OutOf") or reason in ("NodeAffinity", "UnexpectedAdmissionError"):
        return Failure("Unschedulable", message or reason, True)
    if pod.is_terminating and (pod.release or not _had_ended_before(pod)):
        return None  # a holder that releases a sandbox ends it
    ended = ": ".join(filter(None, (pod.terminated_reason or pod.phase, pod.last_words)))
    return Failure("Error", message or f"the sandbox container ended by itself ({ended})")


def _had_ended_before(pod: SandboxPod) -> bool:
    """It was over when it was deleted. The API server's times are whole seconds."""
    if pod.deletion_due_at is None or pod.ended_at is None or pod.deletion_grace_seconds == 0:
        return False
    return (pod.deletion_due_at - pod.ended_at).total_seconds() > pod.deletion_grace_seconds


def _find_lost_node(pod: SandboxPod, now: datetime) -> Failure | None:
    if pod.ready_changed_at is None or (now - pod.ready_changed_at).total_seconds() < NODE_LOST_AFTER_SECONDS:
        return None
    return Failure("NodeLost", f"node {pod.node} stopped reporting", True)


def refusal_failure(refusal: Refusal) -> Failure:
    """What the API server refused, and why."""
    return Failure(refusal.reason, f"the API server refused {refusal.name}: {refusal.message}")


def find_trouble(pod: SandboxPod) -> Failure | None:
    """What keeps a pod from coming up, as far as anybody has said; it may still pass."""
    if pod.unschedulable_message:
        return Failure("Unschedulable", pod.unschedulable_message)
    if pod.waiting_reason in _PULL_REASONS:
        message = pod.waiting_message or pod.waiting_reason
        is_image_at_fault = any(words in message.lower() for words in _IMAGE_AT_FAULT)
        return Failure("ImagePull", f"{pod.image}: {message}", not is_image_at_fault)
    if pod.waiting_reason.endswith("Error") or pod.waiting_reason == "CrashLoopBackOff":
        return Failure("Error", pod.waiting_message or pod.waiting_reason)
    return None
