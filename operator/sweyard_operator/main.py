"""Assembles the operator: caches, queue, controllers, kopf's watches of our kinds, leader Lease, endpoints."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from sweyard_api.constants import API_VERSION
from sweyard_operator.caches import Caches
from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.context import Controller, Operator
from sweyard_operator.credentials import load_credentials
from sweyard_operator.errors import ApiError, NotFoundError, UnreachableError, log_level
from sweyard_operator.execute import Executor
from sweyard_operator.http_endpoints import start_endpoints
from sweyard_operator.kopf_watches import watch_kinds
from sweyard_operator.leader import LeaderLease
from sweyard_operator.metrics import Metrics
from sweyard_operator.registry import build_controllers
from sweyard_operator.resync import resync_forever
from sweyard_operator.settings import Settings
from sweyard_operator.transport import HttpTransport
from sweyard_operator.work_queue import Key, WorkQueue

logger = logging.getLogger(__name__)

_CRD_POLL_SECONDS = 2.0


def build_operator(
    settings: Settings, cluster: Cluster, clock: Callable[[], float], *, work_clock: Callable[[], float]
) -> Operator:
    """The parts, not yet running. `clock` is monotonic, `work_clock` this thread's processor time, both in seconds."""
    caches = Caches(cluster, settings.namespaces, clock)
    return Operator(
        settings=settings,
        cluster=cluster,
        caches=caches,
        queue=WorkQueue(randomness=random.Random(), work_clock=work_clock),
        executor=Executor(cluster, caches),
        metrics=Metrics(),
        clock=clock,
    )


def dispatch(operator: Operator, controllers: Iterable[Controller]) -> Callable[[Key], Awaitable[float | None]]:
    """The queue's worker: the controller of the key's kind, measured."""
    by_kind = {controller.resource.kind: controller for controller in controllers}

    async def reconcile(key: Key) -> float | None:
        started = operator.clock()
        result = "error"
        try:
            requeue_after_seconds = await by_kind[key.kind].reconcile(key)
            result = "ok"
        finally:
            operator.metrics.passes.labels(key.kind, result).inc()
            operator.metrics.pass_seconds.labels(key.kind).observe(operator.clock() - started)
        return requeue_after_seconds

    return reconcile


async def run_controllers(operator: Operator, controllers: list[Controller]) -> None:
    """Everything but leadership and endpoints, until cancelled."""
    resources = [controller.resource for controller in controllers]
    async with asyncio.TaskGroup() as group:
        group.create_task(operator.caches.run(), name="caches")
        await operator.caches.wait_synced()
        worker = operator.queue.run(
            dispatch(operator, controllers),
            num_workers=operator.settings.num_workers,
            on_pass=lambda key, waited, computed: operator.metrics.observe_pass(key.kind, waited, computed),
        )
        group.create_task(worker, name="queue")
        group.create_task(resync_forever(operator, resources), name="resync")


async def serve(settings: Settings) -> None:
    """Run until the process is asked to end. Raises LeadershipLostError when another process leads."""
    credentials = load_credentials(settings.kubeconfig)
    clock = time.monotonic
    contact = Contact(clock)
    cluster = Cluster(HttpTransport(credentials), contact, randomness=random.Random())
    # Connections of its own: no renewal queues behind hundreds of creations.
    lease_cluster = Cluster(HttpTransport(credentials), contact, randomness=random.Random())
    operator = build_operator(settings, cluster, clock, work_clock=time.thread_time)
    controllers = build_controllers(operator)
    lease = LeaderLease(
        lease_cluster,
        namespace=settings.namespace or credentials.namespace,
        identity=settings.identity,
        duration_seconds=settings.leader_lease_seconds,
    )
    endpoints = await start_endpoints(operator)
    try:
        await _wait_for_kinds(cluster, controllers)
        await lease.acquire()
        operator.is_leading.set()
        await _until_first_ends(
            lease.renew_until_lost(),
            run_controllers(operator, controllers),
            watch_kinds(operator, credentials, controllers),
        )
    finally:
        await _end(operator, lease)
        await endpoints.cleanup()
        await asyncio.gather(cluster.close(), lease_cluster.close())


async def _until_first_ends(*parts: Coroutine[Any, Any, None]) -> None:
    """Run all parts; when one ends, in peace or not, so do the others: none may die unnoticed."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


async def _end(operator: Operator, lease: LeaderLease) -> None:
    if operator.is_leading.is_set():
        try:
            async with asyncio.timeout(2.0):
                await lease.release()
        except (ApiError, UnreachableError, TimeoutError) as error:
            logger.info("leader Lease not released: %r", error)


async def _wait_for_kinds(cluster: Cluster, controllers: Iterable[Controller]) -> None:
    """Until the API server serves our kinds: kopf looks for them only once."""
    wanted = {controller.resource.plural for controller in controllers}
    while True:
        try:
            missing = wanted - await _served_plurals(cluster)
            if not missing:
                return
            logger.info("waiting for the CRDs of %s; install them with the chart", ", ".join(sorted(missing)))
        except (ApiError, UnreachableError) as error:
            logger.log(log_level(error), "cannot ask which kinds are served: %s", error)
        await asyncio.sleep(_CRD_POLL_SECONDS)


async def _served_plurals(cluster: Cluster) -> set[str]:
    try:
        return await cluster.served_plurals(API_VERSION)
    except NotFoundError:
        return set()
