"""Pods that a lost node can no longer end: deleted by force, or the next attempt would wait for them for ever.

The node's silence is all that is known: one that the control plane cannot reach may still run. A trainer on it that
cannot renew its Lease has lost its sandboxes by then, and makes no step without them.
"""

from datetime import datetime, timedelta

from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.plan import Deletion, Event
from sweyard_operator.resources import PODS

OVERDUE = timedelta(seconds=60)
"""Beyond the end of a pod's grace period. It is evicted only after its node was silent for minutes."""


def plan_lost_pods(snapshot: RunSnapshot, now: datetime) -> tuple[tuple[Deletion, ...], tuple[Event, ...]]:
    """Deletions by force, and what to say of them."""
    lost = [
        pod
        for pod in snapshot.pods
        if pod.is_lost_with(snapshot.lost_nodes) and pod.due_at is not None and now - pod.due_at >= OVERDUE
    ]
    deletions = [Deletion(PODS, snapshot.namespace, pod.name, pod.uid, grace_period_seconds=0) for pod in lost]
    events = [
        Event(
            "Warning", "NodeLost", f"pod {pod.name} is deleted by force: node {pod.node} does not report that it ended"
        )
        for pod in lost
    ]
    return tuple(deletions), tuple(events)
