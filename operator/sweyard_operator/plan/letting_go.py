"""Letting go of all that costs something: the trainer first, with time for a checkpoint, then what served it."""

from dataclasses import dataclass

from sweyard_operator.build.run_context import COMPONENT_TRAINER
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.orphans import plan_server_orphans
from sweyard_operator.plan.outlived import plan_outlived
from sweyard_operator.plan.plan import Deletion
from sweyard_operator.plan.restart_policy import Ledger
from sweyard_operator.plan.run_children import plan_release, plan_stop
from sweyard_operator.plan.run_status import recorded_ledger


@dataclass(frozen=True, slots=True)
class LettingGo:
    """One pass of it. Config, volume and finished Jobs stay: these are the ledger of what failed."""

    deletions: tuple[Deletion, ...]
    is_done: bool
    """Nothing is held any more."""
    waits_for: str
    """Whose end is awaited, or may not be, for people."""


def plan_letting_go(
    snapshot: RunSnapshot, ledger: Ledger, *, keeps_cache: bool = True, keeps_place: bool = False
) -> LettingGo:
    """What to delete now; not the run's images with `keeps_cache`, nor its place in its queue with `keeps_place`."""
    released = plan_release(snapshot, keeps_cache=keeps_cache, keeps_place=keeps_place)
    deletions = _plan_deletions(snapshot, ledger, released)
    live = sorted(pod.name for pod in snapshot.pods if pod.is_live)
    kept = next((str(refusal) for refusal in snapshot.refusals if refusal.stays), None)
    unfinished = any(not job.is_finished for job in snapshot.jobs)
    return LettingGo(
        deletions,
        is_done=not live and not deletions and not unfinished,
        waits_for=kept or f"waiting for {', '.join(live[:3]) or 'the trainer Job'} to end",
    )


def _plan_deletions(snapshot: RunSnapshot, ledger: Ledger, released: tuple[Deletion, ...]) -> tuple[Deletion, ...]:
    """The trainer first; engines, gateway and pool once it has written its checkpoint and is gone."""
    stop = plan_stop(snapshot)
    if stop:
        # A Job carries the counts; once it is gone, only the status does.
        outlived = plan_outlived(snapshot.namespace, snapshot.pods_of(COMPONENT_TRAINER))
        return (*outlived, *stop) if recorded_ledger(snapshot) == ledger else ()
    if any(not job.is_finished for job in snapshot.jobs):
        return ()
    has_live_trainer = any(pod.is_live for pod in snapshot.pods_of(COMPONENT_TRAINER))
    return () if has_live_trainer else (*released, *plan_server_orphans(snapshot))
