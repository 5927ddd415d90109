"""An operator that runs in the test's own event loop and can be killed at any moment."""

import asyncio
import random
from collections.abc import Callable, Sequence

from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.context import Controller, Operator
from sweyard_operator.main import build_operator, run_controllers
from sweyard_operator.resources import Manifest, name_of, namespace_of
from sweyard_operator.settings import Settings
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.work_queue import Key

_HEARTBEAT_SECONDS = 5.0


class OperatorProcess:
    """All of `sweyard_operator.main` but kopf, leadership and endpoints; informers stand in for kopf's watches."""

    def __init__(self, api: FakeApiServer, build: Callable[[Operator], Sequence[Controller]]) -> None:
        self._api = api
        self._build = build
        self._task: asyncio.Task[None] | None = None
        self.operator: Operator | None = None

    async def start(self) -> Operator:
        """With an empty memory."""
        clock = asyncio.get_running_loop().time
        cluster = Cluster(self._api, Contact(clock), randomness=random.Random(1))
        self.operator = operator = build_operator(Settings(resync_seconds=30.0), cluster, clock, work_clock=clock)
        controllers = list(self._build(operator))
        for controller in controllers:
            operator.caches.watch(controller.resource, "", self._enqueuer(operator, controller))
        self._task = asyncio.create_task(self._run(operator, controllers))
        return operator

    def _enqueuer(
        self, operator: Operator, controller: Controller
    ) -> Callable[[Manifest | None, Manifest | None], None]:
        def enqueue(old: Manifest | None, new: Manifest | None) -> None:
            subject = new or old
            assert subject is not None
            operator.queue.add(Key(controller.resource.kind, namespace_of(subject) or "", name_of(subject)))

        return enqueue

    async def _run(self, operator: Operator, controllers: list[Controller]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run_controllers(operator, controllers))
            group.create_task(self._heartbeat(operator.cluster))

    async def _heartbeat(self, cluster: Cluster) -> None:
        """What the leader Lease's renewals are to a real process."""
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            if not self._api.lies.is_down:
                cluster.contact.heard(None)

    async def kill(self) -> None:
        """As by -9: nothing is finished, nothing is released. Raises what the process had already died of."""
        assert self._task is not None
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def check_alive(self) -> None:
        """Raise what the process died of, if it did."""
        if self._task is not None and self._task.done():
            self._task.result()
