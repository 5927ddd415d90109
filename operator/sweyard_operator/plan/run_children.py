"""Which objects a run must have, which it lets go when it is suspended or over, and which names are taken."""

from collections.abc import Iterable
from dataclasses import dataclass

from sweyard_api.constants import engine_name, gateway_name
from sweyard_operator.build.config_map import build_config_map
from sweyard_operator.build.disruption_budgets import build_disruption_budgets
from sweyard_operator.build.engine import build_engine_service, build_engines
from sweyard_operator.build.gateway import build_gateway, build_gateway_service
from sweyard_operator.build.image_cache import build_image_cache
from sweyard_operator.build.network_policies import build_network_policies
from sweyard_operator.build.pod_group import build_pod_group
from sweyard_operator.build.rollout_pool import build_rollout_pool
from sweyard_operator.build.run_context import COMPONENT_TRAINER, RunContext, RunSettings
from sweyard_operator.build.service_account import build_role_bindings, build_service_account
from sweyard_operator.build.storage import build_claim
from sweyard_operator.build.trainer_job import build_trainer_service
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.plan import Deletion
from sweyard_operator.resources import (
    APPLIED_LATER,
    DEPLOYMENTS,
    IMAGE_CACHES,
    JOBS,
    ROLLOUT_POOLS,
    SERVICES,
    STATEFUL_SETS,
    WORKLOADS,
    Manifest,
    Resource,
    name_of,
    resource_of,
)


@dataclass(frozen=True, slots=True)
class Children:
    """What to create and apply in this pass."""

    create: tuple[Manifest, ...]
    apply: tuple[Manifest, ...]
    is_complete: bool
    """Nothing is missing any more."""
    conflicts: tuple[str, ...]
    """Wanted names that somebody else's objects have, with their kinds."""
    going: tuple[str, ...]
    """Wanted objects that are being deleted and are not gone, with their kinds, and with what keeps them."""


def build_foundation(
    run: RunContext, settings: RunSettings, *, has_config: bool = False, gateway_address: str | None = None
) -> list[Manifest]:
    """What must be there before any pod: policies above all, since a pod may run before a policy that comes late.

    `gateway_address` is the one that a trainer at work was told.
    """
    maybe = [
        # Immutable, and dear to write as YAML: not made again to be compared.
        None if has_config else build_config_map(run),
        build_service_account(run),
        *build_role_bindings(run),
        build_claim(run),
        *build_network_policies(run, settings),
        *build_disruption_budgets(run),
        build_trainer_service(run),
        build_pod_group(run),
        build_engine_service(run) if run.has_engines else None,
        build_gateway_service(run, gateway_address) if run.has_gateway else None,
        build_image_cache(run),
        build_rollout_pool(run),
    ]
    return [manifest for manifest in maybe if manifest is not None]


def build_servers(run: RunContext, settings: RunSettings, num_engines: int) -> list[Manifest]:
    """Engines and gateway."""
    servers = [build_engines(run, settings, num_engines)] if run.has_engines else []
    return [*servers, build_gateway(run, settings)] if run.has_gateway else servers


def plan_children(snapshot: RunSnapshot, wanted: Iterable[Manifest]) -> Children:
    """Create what is absent, bring policies up to date, and never touch what another owner has."""
    create, apply, conflicts, going, is_complete = [], [], [], [], True
    for manifest in wanted:
        resource, name = resource_of(manifest), name_of(manifest)
        live = snapshot.owned(resource, name)
        if live is None or "deletionTimestamp" in live["metadata"]:
            is_complete = False
        if live is not None and "deletionTimestamp" in live["metadata"]:
            going.append(_tell_going(resource, name, live))
        if live is None and (resource, name) in snapshot.children:
            conflicts.append(f'{resource.kind} "{name}"')
        elif live is None:
            create.append(manifest)
        elif resource in APPLIED_LATER:
            apply.append(_with_uid(manifest, live))
    return Children(tuple(create), tuple(apply), is_complete, tuple(conflicts), tuple(going))


def _tell_going(resource: Resource, name: str, live: Manifest) -> str:
    kept = f" (kept by {', '.join(live['metadata']['finalizers'])})" if live["metadata"].get("finalizers") else ""
    return f'{resource.kind} "{name}" is being deleted and not gone{kept}'


def _with_uid(manifest: Manifest, live: Manifest) -> Manifest:
    """With the UID an apply never creates, nor changes a successor of the same name."""
    return {**manifest, "metadata": {**manifest["metadata"], "uid": live["metadata"]["uid"]}}


def plan_release(
    snapshot: RunSnapshot, *, keeps_cache: bool = False, keeps_place: bool = False
) -> tuple[Deletion, ...]:
    """Deletions of what costs something: engines, gateway, the run's own pool, its place in a queue with the quota that
    this holds, and, at its end, its image cache."""
    engine, gateway = engine_name(snapshot.name), gateway_name(snapshot.name)
    released = [
        *((STATEFUL_SETS, engine), (SERVICES, engine), (DEPLOYMENTS, gateway), (SERVICES, gateway)),
        (ROLLOUT_POOLS, snapshot.name),
        *(() if keeps_place else ((WORKLOADS, snapshot.name),)),
        *(() if keeps_cache else ((IMAGE_CACHES, snapshot.name),)),
    ]
    owned = [(resource, snapshot.owned(resource, name)) for resource, name in released]
    return tuple(
        Deletion(resource, snapshot.namespace, name_of(live), live["metadata"]["uid"])
        for resource, live in owned
        if live is not None and "deletionTimestamp" not in live["metadata"]
    )


def plan_stop(snapshot: RunSnapshot) -> tuple[Deletion, ...]:
    """Deletions of trainer Jobs that are under way; their pods get SIGTERM and time for a checkpoint.

    A Job with a failed pod ends by itself, and stays, since its pods' logs say why.
    """
    failed = {pod.attempt for pod in snapshot.pods_of(COMPONENT_TRAINER) if pod.phase == "Failed"}
    return tuple(
        Deletion(JOBS, snapshot.namespace, job.name, job.uid)
        for job in snapshot.jobs
        if not job.is_finished and not job.is_deleting and job.attempt not in failed
    )


def plan_forgetting(snapshot: RunSnapshot) -> tuple[Deletion, ...]:
    """Deletions of finished Jobs older than the last two: the logs of the last failure stay to be read."""
    finished = [job for job in snapshot.jobs if job.is_failed and not job.is_deleting]
    newest = max((job.attempt for job in snapshot.jobs), default=0)
    return tuple(Deletion(JOBS, snapshot.namespace, job.name, job.uid) for job in finished if job.attempt < newest - 1)
