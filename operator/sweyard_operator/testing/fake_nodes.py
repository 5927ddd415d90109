"""Scheduler, kubelets and garbage collector for the fake API server, a step at a time."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sweyard_api.constants import EXIT_CODE_SANDBOX_TERMINATED
from sweyard_operator.build.reset_check import DIRTY_EXIT_CODE
from sweyard_operator.conditions import parse_time, rfc3339
from sweyard_operator.resources import NODES, PODS, Resource
from sweyard_operator.testing.fake_api import FakeApiServer


@dataclass(slots=True)
class FakeNodes:
    """`names` are the nodes; the rest is what goes wrong on them."""

    api: FakeApiServer
    names: tuple[str, ...] = ("node-a", "node-b")
    startup_seconds: float = 1.0
    restart_seconds: float = 1.0
    """Until an ended container of restartPolicy Always is made anew."""
    capacity: int = 10_000
    """Pods a node takes."""
    lost: set[str] = field(default_factory=set)
    """Nodes that stopped reporting: their pods neither start nor go."""
    dirty: dict[str, str] = field(default_factory=dict)
    """By pod UID: what the next container finds that is made in place of an ended one."""
    collects_at_once: bool = True
    """Whether a pod whose owner is gone goes without its grace period."""
    unpullable: Mapping[str, str] = field(default_factory=dict)
    """Images that cannot be pulled, and the kubelet's words."""
    _at_rest: tuple[Any, ...] = field(default=(), init=False)
    """What there was when nothing was under way: until it changes, there is nothing to do."""

    def register(self) -> None:
        """Make the Node objects."""
        for name in self.names:
            self.api.store.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        self.step()

    async def run(self, period_seconds: float = 0.2) -> None:
        """Step for ever."""
        while True:
            self.step()
            await asyncio.sleep(period_seconds)

    def step(self) -> None:
        """Everything that is due now."""
        now, version = self.api.now(), self.api.store.version
        world = (version, self.capacity, frozenset(self.lost), frozenset(self.unpullable.items()))
        if world == self._at_rest:
            return
        for name in self.names:
            self._report(name)
        living = {entry["metadata"]["uid"] for entry in self.api.store.objects.values()}
        under_way = 0
        for (resource, _, _), item in list(self.api.store.objects.items()):
            if not self._collect(resource, item, living) and resource == PODS and not self._is_settled(item):
                under_way += 1
                self._advance(item, now)
        if self.api.store.version != version:
            self.api.touch()
        elif not under_way:
            self._at_rest = world

    def _report(self, name: str) -> None:
        status = {"conditions": [{"type": "Ready", "status": "Unknown" if name in self.lost else "True"}]}
        node = self.api.store.objects[NODES, None, name]
        if node.get("status") != status:
            self.api.store.put(NODES, {**node, "metadata": dict(node["metadata"]), "status": status})

    def _collect(self, resource: Resource, item: dict[str, Any], living: set[str]) -> bool:
        """Garbage: every owner is gone."""
        owners = item["metadata"].get("ownerReferences") or ()
        if not owners or any(owner["uid"] in living for owner in owners):
            return False
        address = (resource, item["metadata"]["namespace"], item["metadata"]["name"])
        if resource == PODS and not self.collects_at_once:
            self.api.delete_pod(item)
            return address not in self.api.store.objects
        self.api.store.remove(address)
        return True

    def _is_settled(self, pod: Mapping[str, Any]) -> bool:
        """Nothing becomes of it by itself."""
        if "deletionTimestamp" in pod["metadata"] or pod["spec"].get("nodeName") in (None, *self.lost):
            return False
        is_pending = (pod.get("status") or {}).get("phase") == "Pending" and not self._is_told(pod)
        return not is_pending and not _is_restarting(pod)

    def _advance(self, pod: dict[str, Any], now: datetime) -> None:
        phase = (pod.get("status") or {}).get("phase")
        pod = self.api.store.get((PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])) or pod
        node = pod["spec"].get("nodeName")
        if node is None:
            self._schedule(pod, now)
        elif node in self.lost:
            self._lose(pod, now)
        elif (deletion := pod["metadata"].get("deletionTimestamp")) is not None:
            if phase == "Running":
                self._stop(pod, now)
            elif parse_time(deletion) <= now:
                self.api.store.remove((PODS, pod["metadata"]["namespace"], pod["metadata"]["name"]))
        elif pod["status"]["phase"] == "Pending":
            self._start(pod, now)
        elif _is_restarting(pod):
            self._restart(pod, now)

    def _is_told(self, pod: Mapping[str, Any]) -> bool:
        """That its image cannot be pulled, as long as that is so."""
        words = self.unpullable.get(pod["spec"]["containers"][0]["image"])
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        return words is not None and any(
            entry["state"].get("waiting", {}).get("message") == words for entry in statuses
        )

    def _schedule(self, pod: dict[str, Any], now: datetime) -> None:
        load = Counter(
            item["spec"].get("nodeName") for (kind, _, _), item in self.api.store.objects.items() if kind == PODS
        )
        fitting = [
            name for name in self.names if name not in self.lost and load[name] < self.capacity and _may(pod, name)
        ]
        if not fitting:
            message = f"0/{len(self.names)} nodes are available: {len(self.names)} Too many pods."
            entry = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            pod["status"] = {"phase": "Pending", "conditions": [entry]}
        else:
            pod["spec"]["nodeName"] = min(fitting, key=lambda name: (-_liking(pod, name), load[name]))
            entry = {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(now)}
            pod["status"] = {"phase": "Pending", "conditions": [entry], "startTime": rfc3339(now)}
        self.api.store.put(PODS, pod)

    def _start(self, pod: dict[str, Any], now: datetime) -> None:
        container = pod["spec"]["containers"][0]
        if (words := self.unpullable.get(container["image"])) is not None:
            waiting = {"reason": "ImagePullBackOff", "message": words}
            pod["status"]["containerStatuses"] = [
                {"name": container["name"], "ready": False, "state": {"waiting": waiting}}
            ]
        elif (now - parse_time(pod["metadata"]["creationTimestamp"])).total_seconds() >= self.startup_seconds:
            pod["status"]["phase"] = "Running"
            state = {"running": {"startedAt": rfc3339(now)}}
            pod["status"]["containerStatuses"] = [{**_first_life(pod), "ready": True, "state": state}]
            _set_ready(pod, "True", now)
        self.api.store.put(PODS, pod)

    def _restart(self, pod: dict[str, Any], now: datetime) -> None:
        (container,) = pod["status"]["containerStatuses"]
        ended_at = parse_time(container["lastState"]["terminated"]["finishedAt"])
        if (now - ended_at).total_seconds() < self.restart_seconds:
            return
        restarts = container["restartCount"] + 1
        name = f"{pod['metadata']['uid']}/{restarts}"
        state = {"running": {"startedAt": rfc3339(now)}}
        container |= {"ready": True, "state": state, "restartCount": restarts, "containerID": name}
        if (dirt := self.dirty.pop(pod["metadata"]["uid"], None)) is not None:
            self.end_container(pod, {"reason": "Error", "exitCode": DIRTY_EXIT_CODE, "message": dirt})
            return
        _set_ready(pod, "True", now)
        self.api.store.put(PODS, pod)

    def _stop(self, pod: dict[str, Any], now: datetime) -> None:
        """As a kubelet tells it of a pod that is deleted, before the pod goes (KEP-3329)."""
        ended = {"reason": "Error", "exitCode": EXIT_CODE_SANDBOX_TERMINATED, "finishedAt": rfc3339(now)}
        pod["status"]["phase"] = "Failed"
        (container,) = pod["status"]["containerStatuses"]
        container |= {"ready": False, "state": {"terminated": ended}}
        _set_ready(pod, "False", now)
        self.api.store.put(PODS, pod)

    def _lose(self, pod: dict[str, Any], now: datetime) -> None:
        if any(entry["type"] == "Ready" and entry["status"] == "True" for entry in pod["status"]["conditions"]):
            _set_ready(pod, "False", now)
            self.api.store.put(PODS, pod)

    def end(self, namespace: str, name: str, *, reason: str = "Error", status: Mapping[str, Any] | None = None) -> None:
        """The container of a pod ends: `reason` is its terminated reason; `status` goes over the pod's."""
        pod, now = self.api.store.get((PODS, namespace, name)), self.api.now()
        assert pod is not None
        ended = {"terminated": {"reason": reason, "exitCode": 137, "finishedAt": rfc3339(now)}}
        if pod["spec"].get("restartPolicy") == "Always" and not status:
            self.end_container(pod, {"reason": reason, "exitCode": 137})
            return
        pod["status"] |= {"phase": "Failed", **(status or {})}
        pod["status"]["containerStatuses"] = [
            {"name": pod["spec"]["containers"][0]["name"], "ready": False, "state": ended}
        ]
        _set_ready(pod, "False", now)
        self.api.store.put(PODS, pod)
        self.api.touch()

    def end_container(self, pod: dict[str, Any], end: Mapping[str, Any]) -> None:
        """The container of a pod with restartPolicy Always ends, and will be made anew."""
        now = self.api.now()
        (container,) = pod["status"]["containerStatuses"]
        terminated = {**end, "containerID": container["containerID"], "finishedAt": rfc3339(now)}
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        container |= {"ready": False, "state": waiting, "lastState": {"terminated": terminated}}
        _set_ready(pod, "False", now)
        self.api.store.put(PODS, pod)
        self.api.touch()


def _first_life(pod: Mapping[str, Any]) -> dict[str, Any]:
    name = f"{pod['metadata']['uid']}/0"
    return {"name": pod["spec"]["containers"][0]["name"], "restartCount": 0, "containerID": name}


def _is_restarting(pod: Mapping[str, Any]) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("waiting" in entry["state"] and "lastState" in entry for entry in statuses)


def _set_ready(pod: dict[str, Any], status: str, now: datetime) -> None:
    others = [entry for entry in pod["status"].get("conditions", ()) if entry["type"] != "Ready"]
    entry = {"type": "Ready", "status": status, "lastTransitionTime": rfc3339(now)}
    pod["status"]["conditions"] = [*others, entry]


def _may(pod: Mapping[str, Any], node: str) -> bool:
    """The node is one of those that the pod requires, if it requires any."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = () if required is None else required["nodeSelectorTerms"]
    return required is None or any(all(_meets(one, node) for one in term["matchFields"]) for term in terms)


def _liking(pod: Mapping[str, Any], node: str) -> int:
    """Sum of the weights of the preferences that a node meets."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(
        int(term["weight"]) for term in terms if all(_meets(one, node) for one in term["preference"]["matchFields"])
    )


def _meets(requirement: Mapping[str, Any], node: str) -> bool:
    assert requirement["key"] == "metadata.name"
    assert len(requirement["values"]) == 1, "the API server takes no more in a field"
    return bool((node in requirement["values"]) == (requirement["operator"] == "In"))
