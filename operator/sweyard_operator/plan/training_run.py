"""One pass over a TrainingRun: from what was asked and what there is to what to do. Pure.

Invariants: two attempts of the trainer never live at once; restarts never exceed their budget; a verdict is never
taken back; an object of another owner is never touched; what cannot be placed whole holds nothing for long; what ends
the trainer is the trainer's own end, never that of an engine or a sandbox.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from sweyard_api.constants import config_map_name, gateway_name
from sweyard_api.problem import InvalidSpecError
from sweyard_operator.build.run_context import COMPONENT_TRAINER, RunContext, RunSettings
from sweyard_operator.build.trainer_job import build_trainer_job
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.bad_config import plan_invalid, plan_unreadable
from sweyard_operator.plan.deadline import deadline
from sweyard_operator.plan.deleted import plan_deleted
from sweyard_operator.plan.engine_count import plan_engine_count, scale_servers
from sweyard_operator.plan.failed_attempt import read_failure
from sweyard_operator.plan.finish import is_finished, plan_finished, plan_verdict
from sweyard_operator.plan.gpu_budget import plan_budget, seconds_left
from sweyard_operator.plan.inference import find_user_fault, plan_inference
from sweyard_operator.plan.lost_pods import plan_lost_pods
from sweyard_operator.plan.orphans import plan_orphans
from sweyard_operator.plan.outlived import end_failed
from sweyard_operator.plan.phase import active_phase
from sweyard_operator.plan.plan import Event, Plan
from sweyard_operator.plan.pod_set_choices import pod_set_choices
from sweyard_operator.plan.progressing import find_obstacle, plan_progressing
from sweyard_operator.plan.queueing import admitted_conditions, plan_queued, queue_name, tell_pods_ready
from sweyard_operator.plan.reasons import Reason
from sweyard_operator.plan.restart_policy import (
    Ended,
    Failures,
    Running,
    Start,
    Waiting,
    count_ledger,
    decide_gang,
)
from sweyard_operator.plan.run_children import (
    build_foundation,
    build_servers,
    plan_children,
    plan_forgetting,
)
from sweyard_operator.plan.run_config import UnreadableConfigError, is_suspended, read_config
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.plan.run_status import (
    build_status,
    find_last_failure,
    find_usage,
    not_suspended,
    recorded_ledger,
    transition_events,
    unfinished_conditions,
)
from sweyard_operator.plan.stages import plan_images, plan_sandboxes
from sweyard_operator.plan.stall import end_stalled, seconds_to_stall
from sweyard_operator.plan.suspend import plan_suspended
from sweyard_operator.plan.trainer import plan_trainer
from sweyard_operator.plan.unplaced import (
    plan_giving_up,
    plan_refused,
    plan_unplaced,
    seconds_to_placement_deadline,
)
from sweyard_operator.plan.volume import volume_obstacle
from sweyard_operator.plan.waiting import POLL_SECONDS, recorded_failures
from sweyard_operator.resources import CONFIG_MAPS, SERVICES, Manifest


def plan_training_run(snapshot: RunSnapshot, settings: RunSettings, now: datetime) -> Plan:
    """What to do about one run, now."""
    if snapshot.is_deleting:
        return plan_deleted(snapshot, now)
    plan = _plan_life(snapshot, settings, now)
    deletions, events = plan_lost_pods(snapshot, now)
    return replace(plan, delete=(*plan.delete, *deletions, *plan_orphans(snapshot)), events=(*plan.events, *events))


def _plan_life(snapshot: RunSnapshot, settings: RunSettings, now: datetime) -> Plan:
    if is_finished(snapshot):
        return plan_finished(snapshot, now)
    try:
        config = read_config(snapshot)
    except InvalidSpecError as error:
        return plan_invalid(snapshot, str(error), now)
    except UnreadableConfigError as error:
        return plan_unreadable(snapshot, str(error), now)
    choices = pod_set_choices(snapshot.queued.workload, snapshot.queued.flavors)
    run = RunContext(snapshot.name, snapshot.namespace, snapshot.uid, config, choices)
    ledger = count_ledger(recorded_ledger(snapshot), snapshot.jobs)
    trainers = snapshot.pods_of(COMPONENT_TRAINER)
    failures = Failures(last=find_last_failure(snapshot), recorded=read_failure(snapshot.status))
    gang = decide_gang(snapshot.jobs, trainers, ledger, config.restart, failures, now)
    work = RunPass(run, snapshot, settings, ledger, gang, now)
    if (ended := _find_end(work)) is not None:
        return plan_verdict(snapshot, ended, ledger, work.total_steps, now)
    if is_suspended(snapshot):
        return plan_suspended(snapshot, ledger, work.total_steps, now)
    if (waiting := plan_unplaced(work)) is not None:
        return waiting
    if (queued := plan_queued(work)) is not None:
        return queued
    left = seconds_to_placement_deadline(work)
    return plan_giving_up(work) if left is not None and left <= 0 else _plan_active(work)


def _find_end(work: RunPass) -> Ended | None:
    """Whether the run is over: by its trainer, by a config that no engine can use, by its budget or its deadline."""
    if isinstance(work.gang, Ended):
        return work.gang
    if (fault := find_user_fault(work.snapshot)) is not None:
        return Ended(False, Reason.USER_ERROR, fault)
    max_hours = work.run.config.max_gpu_hours
    if seconds_left(find_usage(work.snapshot, work.now), max_hours, work.now) == 0:
        message = f"maxGPUHours ({max_hours:g}) are spent; what was trained is in the last checkpoint"
        return Ended(False, Reason.GPU_BUDGET_SPENT, message)
    ends_at = deadline(work.snapshot, work.run.config.active_deadline_seconds)
    if ends_at is None or work.now < ends_at:
        return None
    seconds = work.run.config.active_deadline_seconds
    return Ended(
        False, Reason.DEADLINE_EXCEEDED, f"the run was active for longer than activeDeadlineSeconds ({seconds})"
    )


def _plan_active(work: RunPass) -> Plan:
    run, snapshot, now = work.run, work.snapshot, work.now
    has_config = snapshot.owned(CONFIG_MAPS, config_map_name(run.name)) is not None
    # The config is stored once, with the images that the data sets name: so they must be there first.
    wanted = []
    if not snapshot.missing_datasets():
        known = work.gang.job.gateway_address if isinstance(work.gang, Running) else None
        wanted = build_foundation(run, work.settings, has_config=has_config, gateway_address=known)
    foundation = plan_children(snapshot, wanted)
    servers = plan_children(snapshot, build_servers(run, work.settings, plan_engine_count(work)))
    job = plan_children(snapshot, _next_job(work))
    parts = (foundation, servers, job)
    obstacle = volume_obstacle(run, snapshot) or find_obstacle(
        snapshot, [name for part in parts for name in part.conflicts], [told for part in parts for told in part.going]
    )
    may_serve = foundation.is_complete and obstacle is None
    stages = [plan_images(run, snapshot), plan_sandboxes(run, snapshot), plan_inference(run, snapshot, now)]
    may_train = may_serve and servers.is_complete and all(stage.opens for stage in stages)
    trainer = plan_trainer(run, snapshot, work.gang, stages)
    phase = active_phase(snapshot, work.gang, trainer, stages)
    conditions = [
        *(stage.condition() for stage in (*stages, trainer)),
        plan_progressing(work, [*stages, trainer], obstacle, phase),
        *unfinished_conditions(),
        not_suspended(),
        *admitted_conditions(snapshot),
        *plan_budget(find_usage(snapshot, now), run.config.max_gpu_hours),
    ]
    status = build_status(
        snapshot,
        phase=phase,
        conditions=[*conditions, *plan_refused(work.gang, conditions)],
        ledger=work.ledger,
        total_steps=work.total_steps,
        now=now,
        start=snapshot.time("startTime") or now,
        placement_failures=0 if trainer.is_ready else recorded_failures(snapshot),
    )
    return Plan(
        delete=plan_forgetting(snapshot),
        patch=(
            *tell_pods_ready(work, is_ready=trainer.is_ready),
            *scale_servers(work),
            *end_stalled(work),
            *end_failed(snapshot.namespace, snapshot.pods_of(COMPONENT_TRAINER), now),
        ),
        apply=foundation.apply,
        create=(
            *foundation.create,
            *(servers.create if may_serve else ()),
            *(job.create if may_train else ()),
        ),
        status=status,
        events=(*transition_events(snapshot, conditions), *(_start_events(work) if may_train else ())),
        requeue_after_seconds=_requeue_after_seconds(work, is_steady=trainer.is_ready and may_train),
    )


def _next_job(work: RunPass) -> list[Manifest]:
    """The next attempt's Job, if one is due and the gateway's address is known."""
    if not isinstance(work.gang, Start):
        return []
    address = None
    if work.run.has_gateway:
        service = work.snapshot.owned(SERVICES, gateway_name(work.run.name))
        if service is None:
            return []
        address = str(service["spec"]["clusterIP"])
    attempt, restarts = work.gang.attempt, work.gang.restarts
    return [build_trainer_job(work.run, work.settings, attempt=attempt, restarts=restarts, gateway_ip=address)]


def _start_events(work: RunPass) -> tuple[Event, ...]:
    if not isinstance(work.gang, Start):
        return ()
    message = f"attempt {work.gang.attempt} starts, restart {work.gang.restarts} of {work.run.config.restart.limit}"
    return (Event("Normal", "TrainerStarting", message),)


def _requeue_after_seconds(work: RunPass, *, is_steady: bool) -> float | None:
    moments = [deadline(work.snapshot, work.run.config.active_deadline_seconds)]
    spent_in = seconds_left(find_usage(work.snapshot, work.now), work.run.config.max_gpu_hours, work.now)
    for seconds in (spent_in, seconds_to_stall(work)):
        if seconds is not None:
            moments.append(work.now + timedelta(seconds=seconds))
    if isinstance(work.gang, Waiting):
        moments.append(work.gang.until)
    if not is_steady or queue_name(work.snapshot) is not None:
        moments.append(work.now + timedelta(seconds=POLL_SECONDS))
    return min(((moment - work.now).total_seconds() for moment in moments if moment is not None), default=None)
