"""`queueName`: nothing of a run that costs is made before Kueue has admitted it whole, and nothing is kept after.

The run's Workload is its place in the queue. It goes with the rest when the run is suspended, over, or waits for nodes.
"""

from dataclasses import replace

from sweyard_operator.build.workload import build_workload
from sweyard_operator.conditions import Condition
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.admission import (
    condition,
    holds_quota,
    is_admitted,
    is_evicted,
    plan_giving_back,
    plan_pods_ready,
    unready_checks,
)
from sweyard_operator.plan.letting_go import plan_letting_go
from sweyard_operator.plan.plan import Patch, Plan
from sweyard_operator.plan.progressing import Obstacle, find_obstacle
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.run_children import plan_children
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.plan.waiting import POLL_SECONDS, nothing_held, plan_waiting, recorded_failures
from sweyard_operator.resources import WORKLOADS, Manifest


def queue_name(snapshot: RunSnapshot) -> str | None:
    """The LocalQueue of the run: of the spec as it is, since it may change while the run is suspended."""
    name = snapshot.run["spec"].get("queueName")
    return None if name is None else str(name)


def own_workload(snapshot: RunSnapshot) -> Manifest | None:
    """The run's Workload, if it is in a queue and has one."""
    return snapshot.owned(WORKLOADS, snapshot.name) if queue_name(snapshot) is not None else None


def plan_queued(work: RunPass) -> Plan | None:
    """One pass of a run that waits for its admission, or gives it back; None if it needs none or has it."""
    queue, workload = queue_name(work.snapshot), own_workload(work.snapshot)
    if queue is None or is_admitted(workload):
        return None
    why, going = _why(workload), plan_letting_go(work.snapshot, work.ledger, keeps_place=True)
    if not going.is_done:
        return _waiting(work, Plan(delete=going.deletions), f"not admitted any more{why}; {going.waits_for}")
    if workload is not None and is_evicted(workload) and holds_quota(workload):
        back = plan_giving_back(workload, work.now)
        return _waiting(work, Plan(patch=(back,)), f"gives back its quota{why}")
    # With a data set or a class that does not exist it would be admitted, and hold its quota for nothing.
    is_possible = not work.snapshot.missing_datasets() and _missing_class(work.snapshot) is None
    manifests = [build_workload(work.run, work.settings, queue, work.snapshot.queued.priority)] if is_possible else []
    wanted = plan_children(work.snapshot, manifests)
    obstacle = find_obstacle(work.snapshot, wanted.conflicts) or _missing_class(work.snapshot)
    return _waiting(work, Plan(create=wanted.create), f"waits in LocalQueue {queue}{why}", obstacle)


def _missing_class(snapshot: RunSnapshot) -> Obstacle | None:
    priority = snapshot.queued.priority
    if priority is None or priority.value is not None:
        return None
    return Reason.PRIORITY_CLASS_MISSING, priority.missing


def _why(workload: Manifest | None) -> str:
    """In the words of Kueue and its admission checks, where they have said anything."""
    if workload is None:
        return ""
    evicted, reserved = condition(workload, "Evicted"), condition(workload, "QuotaReserved")
    is_going = evicted.get("status") == "True" and holds_quota(workload)
    said = evicted if is_going else reserved
    words = [str(said.get("message", "")).rstrip(".")]
    if holds_quota(workload) and not is_going:
        words += unready_checks(workload)
    if workload["spec"].get("active") is False:
        words.append("suspend the run and resume it to line up anew")
    told = "; ".join(filter(None, words))
    return f" ({said.get('reason')}): {told}" if told else ""


def _waiting(work: RunPass, deeds: Plan, message: str, obstacle: Obstacle | None = None) -> Plan:
    progressing = Condition(ConditionType.PROGRESSING, "True", Reason.QUEUED, f"Pending: {message}")
    if obstacle is not None:
        progressing = Condition(ConditionType.PROGRESSING, "False", *obstacle)
    return plan_waiting(
        work,
        nothing_held(Reason.QUEUED, "made once Kueue has admitted the run"),
        progressing,
        Condition(ConditionType.ADMITTED, "False", Reason.QUEUED, message),
        # Kueue's word is read, not watched.
        deeds=replace(deeds, requeue_after_seconds=POLL_SECONDS),
        start=None,  # the deadline begins anew with each admission
        placement_failures=recorded_failures(work.snapshot),
    )


def admitted_conditions(snapshot: RunSnapshot) -> list[Condition]:
    """Of an active run: none where it is in no queue."""
    workload = own_workload(snapshot)
    if workload is None:
        return []
    cluster_queue = ((workload.get("status") or {}).get("admission") or {}).get("clusterQueue", "")
    return [Condition(ConditionType.ADMITTED, "True", Reason.ADMITTED, f"admitted by ClusterQueue {cluster_queue}")]


def tell_pods_ready(work: RunPass, *, is_ready: bool) -> tuple[Patch, ...]:
    """What Kueue is to know of an active run."""
    workload = own_workload(work.snapshot)
    patch = plan_pods_ready(workload, work.now, is_ready=is_ready) if workload is not None else None
    return () if patch is None else (patch,)
