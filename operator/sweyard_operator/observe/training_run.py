"""Reads what there is of a TrainingRun from caches, and from the API server what no cache holds."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from sweyard_api.constants import (
    LABEL_RUN,
    config_map_name,
    engine_name,
    gateway_name,
    trainer_job_name,
    trainer_name,
)
from sweyard_operator.build.datasets import plain_dataset_names
from sweyard_operator.build.run_context import LABEL_ATTEMPT, LABEL_RUN_UID
from sweyard_operator.build.service_account import holder_binding_name
from sweyard_operator.caches import Caches
from sweyard_operator.cluster import Cluster
from sweyard_operator.conditions import parse_time
from sweyard_operator.observe.listed_images import listed_images
from sweyard_operator.observe.lost_nodes import find_lost_nodes
from sweyard_operator.observe.pod_state import is_waiting_silently, read_pod
from sweyard_operator.observe.queued_workload import observe_workload
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.observe.trainer_job import attempt_of, read_job
from sweyard_operator.observe.warning_events import observe_warnings
from sweyard_operator.plan.admission import QueuedWorkload
from sweyard_operator.plan.plan import Refusal
from sweyard_operator.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    IMAGE_CACHES,
    JOBS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    ROLE_BINDINGS,
    ROLLOUT_POOLS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    WORKLOADS,
    Manifest,
    Resource,
    is_owned_by,
    labels_of,
    name_of,
    namespace_of,
)

_SILENT_SECONDS = 15
"""A pod's volumes are mounted within seconds; after that its events are asked why not."""


def child_names(run: str) -> list[tuple[Resource, str]]:
    """Kind and name of every child that a run may have, its trainer Jobs aside."""
    engine, gateway, trainer = engine_name(run), gateway_name(run), trainer_name(run)
    return [
        (CONFIG_MAPS, config_map_name(run)),
        *((resource, run) for resource in (IMAGE_CACHES, ROLLOUT_POOLS, PERSISTENT_VOLUME_CLAIMS)),
        *((resource, trainer) for resource in (SERVICE_ACCOUNTS, ROLE_BINDINGS, SERVICES, NETWORK_POLICIES)),
        (ROLE_BINDINGS, holder_binding_name(run)),
        *((POD_DISRUPTION_BUDGETS, name) for name in (trainer, engine)),
        *((resource, engine) for resource in (STATEFUL_SETS, SERVICES, NETWORK_POLICIES)),
        *((resource, gateway) for resource in (DEPLOYMENTS, SERVICES, NETWORK_POLICIES)),
    ]


async def observe_training_run(
    cluster: Cluster,
    caches: Caches,
    run: Manifest,
    *,
    taken: Iterable[str] = (),
    refusals: tuple[Refusal, ...] = (),
    now: datetime,
) -> RunSnapshot:
    """The run and all that belongs to it; `taken` are names that the last pass could not create."""
    name, namespace, uid = name_of(run), str(namespace_of(run)), str(run["metadata"]["uid"])
    children, unheard = await _observe_children(cluster, caches, namespace, name, set(taken))
    jobs = [job for job in caches.labelled(JOBS, namespace, LABEL_RUN, name) if is_owned_by(job, uid)]
    pods = [
        pod for pod in caches.labelled(PODS, namespace, LABEL_RUN, name) if labels_of(pod).get(LABEL_RUN_UID) == uid
    ]
    jobs += await _find_unheard_jobs(cluster, namespace, name, uid, jobs, pods)
    warnings = await observe_warnings(cluster, namespace, _puzzling(children, jobs, pods, now))
    spec = run["spec"]
    cache_name = (spec.get("images") or {}).get("cacheRef") or name
    pool_name = (spec.get("sandboxes") or {}).get("poolRef") or name
    states = tuple(read_pod(pod, warnings.get(pod["metadata"]["uid"]), now=now) for pod in pods)
    overdue = [pod.node for pod in states if pod.is_live and pod.node and pod.due_at is not None and pod.due_at < now]
    queued = QueuedWorkload()
    if spec.get("queueName") is not None:
        queued = await observe_workload(cluster, namespace, name, spec)
        if queued.workload is not None:
            children[WORKLOADS, name] = queued.workload
    if (spec.get("trainer") or {}).get("podGroup"):
        # Read, since few clusters serve the kind and a watch would need all to.
        group = await cluster.find(POD_GROUPS, namespace, trainer_name(name))
        if group is not None:
            children[POD_GROUPS, trainer_name(name)] = group
    has_begun = (CONFIG_MAPS, config_map_name(name)) in children and bool(jobs)
    return RunSnapshot(
        run=run,
        children=children,
        unheard=unheard,
        jobs=tuple(
            sorted((read_job(job, warnings.get(job["metadata"]["uid"])) for job in jobs), key=lambda job: job.attempt)
        ),
        pods=states,
        image_cache=caches.get(IMAGE_CACHES, namespace, cache_name),
        rollout_pool=caches.get(ROLLOUT_POOLS, namespace, pool_name),
        warnings=warnings,
        datasets={} if has_begun else await _observe_datasets(cluster, namespace, spec),
        queued=queued,
        lost_nodes=await find_lost_nodes(cluster, overdue),
        refusals=refusals,
    )


async def _observe_children(
    cluster: Cluster, caches: Caches, namespace: str, run: str, taken: set[str]
) -> tuple[dict[tuple[Resource, str], Manifest], frozenset[str]]:
    """From the caches, which hold what carries our labels; what bears a taken name is looked at itself. Also the names
    of those that were found so."""
    found, unheard = {}, set()
    jobs = [(JOBS, name) for name in taken if name.startswith(f"{trainer_name(run)}-")]
    for resource, name in [*child_names(run), *jobs]:
        child = caches.get(resource, namespace, name)
        if child is None and name in taken:
            child = await cluster.find(resource, namespace, name)
            unheard |= {name} if child is not None else set()
        if child is not None:
            found[resource, name] = child
    return found, frozenset(unheard)


async def _find_unheard_jobs(
    cluster: Cluster, namespace: str, run: str, uid: str, jobs: list[Manifest], pods: list[Manifest]
) -> list[Manifest]:
    """Of attempts that have pods, asked for before these count as nobody's: a watch may lag, a label may be gone."""
    heard = {attempt_of(job) for job in jobs}
    live = (pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"))
    attempts = {int(labels_of(pod)[LABEL_ATTEMPT]) for pod in live if LABEL_ATTEMPT in labels_of(pod)}
    found = [await cluster.find(JOBS, namespace, trainer_job_name(run, attempt)) for attempt in attempts - heard]
    return [job for job in found if job is not None and is_owned_by(job, uid)]


def _puzzling(
    children: dict[tuple[Resource, str], Manifest], jobs: list[Manifest], pods: list[Manifest], now: datetime
) -> list[str]:
    """UIDs of objects whose own status does not tell why their pods are not there or do not start."""
    attempts = [labels_of(pod).get(LABEL_ATTEMPT) for pod in pods]
    short_jobs = [
        job
        for job in jobs
        if int((job.get("status") or {}).get("active") or 0) < job["spec"]["parallelism"]
        and attempts.count(str(attempt_of(job))) < job["spec"]["parallelism"]
    ]
    short_sets = [
        child
        for (resource, _), child in children.items()
        if resource in (STATEFUL_SETS, DEPLOYMENTS)
        and int((child.get("status") or {}).get("replicas") or 0) < child["spec"]["replicas"]
    ]
    silent = [
        pod
        for pod in pods
        if is_waiting_silently(pod)
        and now - parse_time(pod["metadata"]["creationTimestamp"]) > timedelta(seconds=_SILENT_SECONDS)
    ]
    unbound = [
        child
        for (resource, _), child in children.items()
        if resource == PERSISTENT_VOLUME_CLAIMS and (child.get("status") or {}).get("phase") == "Pending"
    ]
    return [item["metadata"]["uid"] for item in (*unbound, *short_jobs[-1:], *short_sets, *silent)]


async def _observe_datasets(cluster: Cluster, namespace: str, spec: Manifest) -> dict[str, tuple[str, ...] | None]:
    """Read once a pass until the trainer starts: they are the user's and carry no label of ours."""
    found = {name: await cluster.find(CONFIG_MAPS, namespace, name) for name in plain_dataset_names(spec)}
    return {name: None if item is None else listed_images(item) for name, item in found.items()}
