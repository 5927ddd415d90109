"""Kubernetes' own controllers for the fake API server, as far as a run relies on them; a step at a time.

Jobs are Indexed with backoffLimit 0: no pod is ever made again, one that fails or goes ends the others, as does a
deadline, and the verdict comes when all have ended. StatefulSets and Deployments keep their number of pods.
"""

import asyncio
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweyard_api.constants import EXIT_CODE_USER_FAULT
from sweyard_operator.conditions import rfc3339
from sweyard_operator.resources import (
    DEPLOYMENTS,
    IMAGE_CACHES,
    JOBS,
    PODS,
    ROLLOUT_POOLS,
    STATEFUL_SETS,
    Manifest,
    name_of,
    owner_reference,
    resource_of,
)
from sweyard_operator.testing.fake_api import FakeApiServer

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt of a trainer ends: after so many seconds in which all its pods ran, by its first pod."""

    after_seconds: float
    exit_code: int


@dataclass(slots=True)
class FakeControllers:
    """`endings` are used up by one Job after the other; when there are none left, Jobs succeed."""

    api: FakeApiServer
    endings: list[Ending] = field(default_factory=list)
    success: Ending = Ending(60.0, 0)
    _chosen: dict[str, Ending] = field(default_factory=dict)
    _whole_since: dict[str, float] = field(default_factory=dict)
    _started: set[str] = field(default_factory=set)

    async def run(self, period_seconds: float = 0.5) -> None:
        """Step for ever."""
        while True:
            self.step()
            await asyncio.sleep(period_seconds)

    def step(self) -> None:
        """Everything that is due now."""
        version = self.api.store.version
        for (resource, _, _), item in list(self.api.store.objects.items()):
            if resource == JOBS:
                self._keep_job(item)
            elif resource in (STATEFUL_SETS, DEPLOYMENTS):
                self._keep_pods(item)
            elif resource in (ROLLOUT_POOLS, IMAGE_CACHES):
                ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "all is well"}
                self._write_status(item, {"conditions": [ready]})
        if self.api.store.version != version:
            self.api.touch()

    def _keep_pods(self, owner: Object) -> None:
        for index in range(owner["spec"]["replicas"]):
            self._make_pod(owner, f"{name_of(owner)}-{index}")

    def _keep_job(self, job: Object) -> None:
        uid, indices = job["metadata"]["uid"], range(job["spec"]["parallelism"])
        if (job.get("status") or {}).get("conditions"):
            return
        if uid not in self._started:
            self._started.add(uid)
            for index in indices:
                self._make_pod(job, f"{name_of(job)}-{index}")
        pods = self._pods_of(job)
        phases = [str((pod.get("status") or {}).get("phase", "Pending")) for pod in pods]
        if (
            "Failed" in phases
            or "activeDeadlineSeconds" in job["spec"]  # which is never set but to be over
            or len(pods) < len(indices)
            or any("deletionTimestamp" in pod["metadata"] for pod in pods)
        ):
            self._fail(job, pods)
        elif set(phases) == {"Succeeded"}:
            self._judge(job, "Complete", "CompletionsReached")
        elif set(phases) == {"Running"}:
            self._let_work(job, pods)

    def _let_work(self, job: Object, pods: Sequence[Object]) -> None:
        uid, now = job["metadata"]["uid"], asyncio.get_running_loop().time()
        ending = self._chosen.get(uid)
        if ending is None:
            ending = self._chosen[uid] = self.endings.pop(0) if self.endings else self.success
        if now - self._whole_since.setdefault(uid, now) < ending.after_seconds:
            return
        for pod in pods if ending.exit_code == 0 else pods[:1]:
            self.end_pod(pod, ending.exit_code)

    def end_pod(self, pod: Object, exit_code: int) -> None:
        """Its container ends by itself."""
        ended = {"exitCode": exit_code, "finishedAt": rfc3339(self.api.now()), "message": "", "reason": "Error"}
        container = {"name": pod["spec"]["containers"][0]["name"], "state": {"terminated": ended}}
        phase = "Failed" if exit_code else "Succeeded"
        self._write_status(pod, {**pod["status"], "phase": phase, "containerStatuses": [container]})

    def _fail(self, job: Object, pods: Sequence[Object]) -> None:
        live = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")]
        for pod in live:
            self.api.delete_pod(pod)
        if live:
            return
        codes = [
            (container["state"].get("terminated") or {}).get("exitCode")
            for pod in pods
            for container in pod["status"].get("containerStatuses", ())
        ]
        is_user_fault = EXIT_CODE_USER_FAULT in codes
        self._judge(job, "Failed", "PodFailurePolicy" if is_user_fault else "BackoffLimitExceeded")

    def _judge(self, job: Object, kind: str, reason: str) -> None:
        verdict = {"type": kind, "status": "True", "reason": reason, "message": "by the Job controller"}
        verdict["lastTransitionTime"] = rfc3339(self.api.now())
        self._write_status(job, {"conditions": [verdict]})

    def _pods_of(self, owner: Manifest) -> list[Object]:
        uid = owner["metadata"]["uid"]
        pods = [item for (resource, _, _), item in self.api.store.objects.items() if resource == PODS]
        mine = [pod for pod in pods if any(one["uid"] == uid for one in pod["metadata"].get("ownerReferences", ()))]
        return sorted(mine, key=name_of)

    def _make_pod(self, owner: Manifest, name: str) -> None:
        namespace = owner["metadata"]["namespace"]
        if (PODS, namespace, name) in self.api.store.objects:
            return
        template: Mapping[str, Any] = owner["spec"]["template"]
        metadata = {**template["metadata"], "name": name, "namespace": namespace}
        metadata["ownerReferences"] = [owner_reference(owner)]
        spec = copy.deepcopy(dict(template["spec"]))
        self.api.store.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def _write_status(self, item: Object, status: Mapping[str, Any]) -> None:
        self.api.store.put(resource_of(item), {**copy.deepcopy(item), "status": copy.deepcopy(dict(status))})
