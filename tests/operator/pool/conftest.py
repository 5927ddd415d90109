"""A pool on the lying API server, under an operator that can be killed, in virtual time."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from sweyard_api.constants import (
    ANNOTATION_CLAIMED_AT,
    ANNOTATION_HOLDER,
    ANNOTATION_RELEASE,
    API_VERSION,
    CONTAINER_SANDBOX,
    DEMAND_KEY,
    LABEL_POOL,
)
from sweyard_operator.conditions import rfc3339
from sweyard_operator.handlers.rollout_pool import RolloutPoolController
from sweyard_operator.resources import CONFIG_MAPS, LEASES, PODS, ROLLOUT_POOLS, Resource
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.fake_nodes import FakeNodes
from sweyard_operator.testing.lies import Lies
from sweyard_operator.testing.operator_process import OperatorProcess
from sweyard_operator.testing.virtual_time import run_in_virtual_time

NAMESPACE = "team"
POOL = "pool"
LEASE_SECONDS = 60


class World:
    """The test's hands: they write into the store directly and are never lied to."""

    def __init__(self) -> None:
        self.api = FakeApiServer(Lies())
        self.nodes = FakeNodes(self.api)
        self.process = OperatorProcess(self.api, lambda operator: [RolloutPoolController(operator)])
        self.stranger = ""
        self.renewing: dict[str, asyncio.Task[None]] = {}

    def create_pool(self, **spec: Any) -> str:
        """Returns its UID."""
        metadata = {"name": POOL, "namespace": NAMESPACE}
        manifest = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": metadata, "spec": spec}
        pool = self.api.store.create(ROLLOUT_POOLS, manifest)
        self.api.touch()
        return str(pool["metadata"]["uid"])

    def edit_pool(self, **spec: Any) -> None:
        pool = self.pool()
        pool["spec"] = {**pool["spec"], **spec}
        self._put(ROLLOUT_POOLS, pool)

    def delete_pool(self) -> None:
        self.api.store.remove((ROLLOUT_POOLS, NAMESPACE, POOL))
        self.api.touch()

    def pool(self) -> dict[str, Any]:
        pool = self.api.store.get((ROLLOUT_POOLS, NAMESPACE, POOL))
        assert pool is not None
        return pool

    def status(self) -> dict[str, Any]:
        return dict(self.pool().get("status") or {})

    def condition(self, kind: str) -> dict[str, Any]:
        return next(dict(entry) for entry in self.status()["conditions"] if entry["type"] == kind)

    def _put(self, resource: Resource, item: dict[str, Any]) -> None:
        self.api.store.put(resource, item)
        self.api.touch()

    def pods(
        self, *, image: str | None = None, holder: str | None = None, ready: bool | None = None
    ) -> list[dict[str, Any]]:
        """Pods that exist and fit, by name."""
        found = []
        for (resource, _, _), item in sorted(self.api.store.objects.items(), key=lambda entry: entry[0][2]):
            if resource != PODS or item["metadata"]["uid"] == self.stranger:
                continue
            fits_image = image is None or item["spec"]["containers"][0]["image"] == image
            fits_holder = holder is None or item["metadata"]["annotations"].get(ANNOTATION_HOLDER) == holder
            if fits_image and fits_holder and (ready is None or is_ready(item) == ready):
                found.append(item)
        return found

    def created_uids(self) -> set[str]:
        """Of every pod that ever was."""
        return {change.object["metadata"]["uid"] for change in self.api.store.history if change.resource == PODS}

    def claim(self, holder: str, image: str | None = None) -> str | None:
        """As a client does: the UID of a free Ready sandbox that is the holder's from now on; None if there is none."""
        for pod in self.pods(image=image, holder="", ready=True):
            if "deletionTimestamp" not in pod["metadata"]:
                copied = json.loads(json.dumps(pod))
                annotations = {ANNOTATION_HOLDER: holder, ANNOTATION_CLAIMED_AT: rfc3339(self.api.now())}
                copied["metadata"]["annotations"] |= annotations
                self._put(PODS, copied)
                return str(pod["metadata"]["uid"])
        return None

    def edit_annotation(self, uid: str, name: str, value: str | None) -> None:
        """As a person with kubectl does; None takes it out."""
        pod = json.loads(json.dumps(next(pod for pod in self.pods() if pod["metadata"]["uid"] == uid)))
        annotations = {**pod["metadata"]["annotations"], name: value}
        pod["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
        self._put(PODS, pod)

    def release(self, uid: str) -> None:
        """Delete, as a client does."""
        pod = next((pod for pod in self.pods() if pod["metadata"]["uid"] == uid), None)
        if pod is not None:
            self.api._delete((PODS, NAMESPACE, pod["metadata"]["name"]), json.loads(json.dumps(pod)), {})

    def mark_released(self, uid: str) -> dict[str, Any]:
        """As a client does that gives a sandbox back for another use: it says which container it used."""
        pod = next(pod for pod in self.pods() if pod["metadata"]["uid"] == uid)
        copied: dict[str, Any] = json.loads(json.dumps(pod))
        (container,) = copied["status"]["containerStatuses"]
        copied["metadata"]["annotations"][ANNOTATION_RELEASE] = container["containerID"]
        self._put(PODS, copied)
        return copied

    def recycle(self, uid: str, *, dirt: str | None = None, end: Mapping[str, Any] | None = None) -> None:
        """Release, and end the container; `dirt` is what the next one then says."""
        pod = self.mark_released(uid)
        if dirt is not None:
            self.nodes.dirty[uid] = dirt
        self.nodes.end_container(pod, end or {"reason": "Error", "exitCode": 143})

    def join(self, holder: str, demand: Sequence[str] = ()) -> None:
        """Create a Lease, keep it renewed, and announce `demand`."""
        metadata = {"name": holder, "namespace": NAMESPACE, "labels": {LABEL_POOL: POOL}}
        spec = {"holderIdentity": holder, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": "0"}
        manifest = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        self.api.store.create(LEASES, manifest)
        self.renewing[holder] = asyncio.create_task(self._renew(holder))
        if demand:
            self.announce(holder, demand)
        self.api.touch()

    def announce(self, holder: str, demand: Sequence[str]) -> None:
        self.announce_text(holder, json.dumps({"images": list(demand)}))

    def announce_text(self, holder: str, demand: str) -> None:
        metadata = {"name": holder, "namespace": NAMESPACE, "labels": {LABEL_POOL: POOL}}
        data = {DEMAND_KEY: demand}
        known = self.api.store.get((CONFIG_MAPS, NAMESPACE, holder))
        if known is None:
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            self.api.store.create(CONFIG_MAPS, manifest)
            self.api.touch()
        else:
            self._put(CONFIG_MAPS, {**known, "data": data})

    async def _renew(self, holder: str) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 4)
            lease = self.api.store.get((LEASES, NAMESPACE, holder))
            if lease is None:
                return
            # A holder cannot renew while the API server is away.
            if not self.api.lies.is_down:
                lease["spec"]["renewTime"] = rfc3339(self.api.now())
                self._put(LEASES, lease)

    def die(self, holder: str) -> None:
        """The holder is killed: it renews no more and cleans up nothing."""
        self.renewing.pop(holder).cancel()

    def leave(self, holder: str) -> None:
        """The holder ends in peace: its Lease, demand and sandboxes are deleted by itself."""
        self.die(holder)
        for pod in self.pods(holder=holder):
            self.release(pod["metadata"]["uid"])
        for resource in (CONFIG_MAPS, LEASES):
            if self.api.store.get((resource, NAMESPACE, holder)) is not None:
                self.api.store.remove((resource, NAMESPACE, holder))
        self.api.touch()

    def exists(self, resource: Resource, name: str) -> bool:
        return self.api.store.get((resource, NAMESPACE, name)) is not None

    def exists_lease(self, holder: str) -> bool:
        return self.exists(LEASES, holder)

    def create_stranger(self) -> None:
        """A pod of the pool's label, and of nobody we know."""
        metadata = {"name": "pool-of-somebody-else", "namespace": NAMESPACE, "labels": {LABEL_POOL: POOL}}
        spec = {"containers": [{"name": CONTAINER_SANDBOX, "image": "registry.test/theirs:1"}]}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}
        self.stranger = str(self.api.store.create(PODS, manifest)["metadata"]["uid"])

    def exists_stranger(self) -> bool:
        pod = self.api.store.get((PODS, NAMESPACE, "pool-of-somebody-else"))
        return pod is not None and pod["metadata"]["uid"] == self.stranger

    async def sleep(self, seconds: float) -> None:
        """Virtual seconds pass."""
        await asyncio.sleep(seconds)
        self.process.check_alive()

    async def until(self, holds: Callable[[], bool], seconds: float = 600.0) -> None:
        """Wait for something to become true; fail with what is there if it does not."""
        for _ in range(int(seconds * 10)):
            if holds():
                return
            await self.sleep(0.1)
        pods = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in self.pods()}
        raise AssertionError(f"not within {seconds:g} s: pods {pods}, status {self.status()}")


def is_ready(pod: Mapping[str, Any]) -> bool:
    assert pod["spec"]["containers"][0]["name"] == CONTAINER_SANDBOX
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


Story = Callable[[World], Coroutine[Any, Any, None]]


def _play(story: Story) -> None:
    async def main() -> None:
        world = World()
        world.nodes.register()
        stepping = asyncio.create_task(world.nodes.run())
        await world.process.start()
        try:
            await story(world)
        finally:
            for task in (stepping, *world.renewing.values()):
                task.cancel()
            await world.process.kill()

    run_in_virtual_time(main())


@pytest.fixture
def play() -> Callable[[Story], None]:
    """Runs a story in a new world with a running operator."""
    return _play
