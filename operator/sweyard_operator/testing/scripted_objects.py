"""Objects and pods of one run, without an API server: what is made and deleted is so at once, and controllers make the
pods that an API server's would."""

import copy
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sweyard_operator.conditions import rfc3339
from sweyard_operator.plan.plan import Deletion
from sweyard_operator.resources import (
    DEPLOYMENTS,
    JOBS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    TRAINING_RUNS,
    Manifest,
    Resource,
    name_of,
    resource_of,
)

Object = dict[str, Any]


class ScriptedObjects:
    """By kind and name, pods by name alone."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.objects: dict[tuple[Resource, str], Object] = {}
        self.pods: dict[str, Object] = {}
        self.is_run_deleted = False
        self._num_objects = 0

    def add(self, manifest: Manifest) -> None:
        """Create an object, unless there is one of that name."""
        key = (resource_of(manifest), name_of(manifest))
        if key in self.objects:
            return
        item = copy.deepcopy(dict(manifest))
        item["metadata"] |= {"uid": self._new_uid(), "creationTimestamp": rfc3339(self.now), "resourceVersion": "1"}
        if key[0] == SERVICES and item["spec"].get("clusterIP") is None:
            item["spec"]["clusterIP"] = "10.96.0.7"
        self.objects[key] = item
        if key[0] == JOBS and not item["spec"].get("suspend"):
            self._start_gang(item)

    def _start_gang(self, job: Object) -> None:
        for index in range(job["spec"]["parallelism"]):
            self.add_pod(f"{name_of(job)}-{index}", job["spec"]["template"]["metadata"]["labels"])

    def add_pod(self, name: str, labels: Mapping[str, str]) -> None:
        """One that nobody has placed yet."""
        metadata = {"name": name, "uid": self._new_uid(), "labels": dict(labels)}
        metadata["creationTimestamp"] = rfc3339(self.now)
        self.pods[name] = {"metadata": metadata, "spec": self._pod_spec(name), "status": {"phase": "Pending"}}

    def _pod_spec(self, name: str) -> Object:
        """As its owner's template has it."""
        owner = name.rpartition("-")[0]
        kinds = (JOBS, STATEFUL_SETS, DEPLOYMENTS)
        template = next((self.objects[kind, owner] for kind in kinds if (kind, owner) in self.objects), None)
        return copy.deepcopy(template["spec"]["template"]["spec"]) if template is not None else {}

    def delete(self, deletion: Deletion) -> None:
        """What a plan asks to have deleted; pods of a Job that still run end within their grace period."""
        if deletion.resource == TRAINING_RUNS:
            self.is_run_deleted = True
            return
        if deletion.resource == PODS:
            self._delete_pod(deletion)
            return
        key = (deletion.resource, deletion.name)
        if self.objects.get(key, {}).get("metadata", {}).get("uid") != deletion.uid:
            return
        del self.objects[key]
        for name, pod in list(self.pods.items()):
            if not name.startswith(f"{deletion.name}-") or deletion.resource not in (JOBS, STATEFUL_SETS, DEPLOYMENTS):
                continue
            if deletion.resource == JOBS and pod["status"]["phase"] in ("Pending", "Running"):
                self._end_pod_within(pod, pod["spec"].get("terminationGracePeriodSeconds", 30))
            else:
                del self.pods[name]

    def _delete_pod(self, deletion: Deletion) -> None:
        """At once without a grace period; else its kubelet has the last word, where it has one."""
        pod = self.pods.get(deletion.name)
        if pod is None or pod["metadata"]["uid"] != deletion.uid:
            return
        if deletion.grace_period_seconds == 0:
            del self.pods[deletion.name]
        else:
            grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
            asked = deletion.grace_period_seconds
            self._end_pod_within(pod, grace if asked is None else asked)

    def _end_pod_within(self, pod: Object, seconds: int) -> None:
        """A later deletion brings the end no nearer, though an API server's timestamp does move: kubelets keep to the
        grace period that they were told first."""
        pod["metadata"].setdefault("deletionTimestamp", rfc3339(self.now + timedelta(seconds=seconds)))

    def _new_uid(self) -> str:
        self._num_objects += 1
        return f"uid-{self._num_objects}"
