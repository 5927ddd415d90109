"""Stages of a sandbox's life and how long each took. Pure.

scheduled: from creation to a node; networked: to a network of its own; pulled: from there to a running container, which
is the pull of the image but for a second; ready: to a readiness that the API server knows; claimed: how long it waited
for a holder; released: how long that one had it. The API server's times, and so these, are whole seconds; the last two
also mix in the clock of the holder.
"""

from sweyard_operator.plan.sandbox import SandboxPod

STAGES = ("scheduled", "networked", "pulled", "ready", "claimed", "released")


def stage_seconds(pod: SandboxPod) -> dict[str, float]:
    """Of the stages that `pod` has behind it."""
    ready_at = pod.ready_changed_at if pod.is_ready else None
    released_at = pod.deletion_due_at if pod.claimed_at is not None else None
    spans = {
        "scheduled": (pod.created_at, pod.scheduled_at),
        "networked": (pod.scheduled_at, pod.networked_at),
        "pulled": (pod.networked_at, pod.started_at),
        "ready": (pod.started_at, ready_at),
        "claimed": (ready_at, pod.claimed_at),
        "released": (pod.claimed_at, released_at),
    }
    return {
        stage: max(0.0, (ended - began).total_seconds())
        for stage, (began, ended) in spans.items()
        if began is not None and ended is not None
    }


def passed_stages(before: SandboxPod, after: SandboxPod) -> dict[str, float]:
    """Stages that ended between two looks at the same pod."""
    known = stage_seconds(before)
    return {stage: seconds for stage, seconds in stage_seconds(after).items() if stage not in known}
