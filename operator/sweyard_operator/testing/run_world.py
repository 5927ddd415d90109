"""One TrainingRun in a world without an API server: plans are carried out at once, controllers and nodes are scripted.

Deterministic: time stands still unless told to pass, and nothing happens that no method was called for.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sweyard_api.constants import (
    API_VERSION,
    FIELD_MANAGER_TRAINER,
    LABEL_COMPONENT,
    LABEL_RUN,
    engine_name,
    gateway_name,
    trainer_job_name,
)
from sweyard_operator.build.run_context import LABEL_RUN_UID, RunSettings
from sweyard_operator.conditions import rfc3339
from sweyard_operator.observe.pod_state import read_pod
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.observe.trainer_job import read_job
from sweyard_operator.plan.admission import QueuedWorkload
from sweyard_operator.plan.plan import Plan, Refusal
from sweyard_operator.plan.queue_priority import QueuePriority, named_class
from sweyard_operator.plan.silence import SilenceClock
from sweyard_operator.plan.stall import hear_trainer
from sweyard_operator.plan.training_run import plan_training_run
from sweyard_operator.resources import (
    DEPLOYMENTS,
    IMAGE_CACHES,
    JOBS,
    PODS,
    ROLLOUT_POOLS,
    STATEFUL_SETS,
    WORKLOADS,
    Manifest,
    Resource,
    is_owned_by,
    name_of,
)
from sweyard_operator.testing.patches import json_patch
from sweyard_operator.testing.scripted_objects import Object, ScriptedObjects

_BEGIN = datetime(2030, 1, 1, tzinfo=UTC)


class RunWorld(ScriptedObjects):
    """The run is called `demo`, in namespace `lab`."""

    def __init__(self, spec: Mapping[str, Any], settings: RunSettings) -> None:
        super().__init__(_BEGIN)
        self.settings = settings
        self.run: Object = {
            "apiVersion": API_VERSION,
            "kind": "TrainingRun",
            "metadata": {"name": "demo", "namespace": "lab", "uid": "run-uid", "generation": 1},
            "spec": dict(spec),
            "status": {},
        }
        self.warnings: dict[str, str] = {}
        self.datasets: dict[str, tuple[str, ...] | None] = {}
        self.flavors: dict[str, Object] = {}
        self.classes: dict[str, int] = {}
        """Values of WorkloadPriorityClasses and PriorityClasses."""
        self.lost_nodes: set[str] = set()
        self.refusals: tuple[Refusal, ...] = ()
        self.outages = 0
        """Times that the operator lost contact."""
        self._silence = SilenceClock()

    # The operator.

    def snapshot(self) -> RunSnapshot:
        """What an operator would see now."""
        jobs = [item for (resource, _), item in self.objects.items() if resource == JOBS]
        snapshot = RunSnapshot(
            run=copy.deepcopy(self.run),
            children={key: item for key, item in self.objects.items() if key[0] != JOBS or not self._is_ours(item)},
            jobs=tuple(read_job(job, self.warnings.get(job["metadata"]["uid"])) for job in jobs if self._is_ours(job)),
            pods=tuple(
                read_pod(pod, self.warnings.get(pod["metadata"]["uid"]), now=self.now) for pod in self.pods.values()
            ),
            image_cache=self._shared(IMAGE_CACHES, "images", "cacheRef"),
            rollout_pool=self._shared(ROLLOUT_POOLS, "sandboxes", "poolRef"),
            warnings=self.warnings,
            datasets=self.datasets,
            queued=QueuedWorkload(self.objects.get((WORKLOADS, "demo")), self.flavors, self._priority()),
            lost_nodes=frozenset(self.lost_nodes),
            refusals=self.refusals,
        )
        seconds = (self.now - _BEGIN).total_seconds()
        return replace(snapshot, silent_seconds=hear_trainer(self._silence, snapshot, self.outages, seconds))

    def _priority(self) -> QueuePriority | None:
        named = named_class(self.run["spec"])
        if named is None or (WORKLOADS, "demo") in self.objects:
            return None
        return QueuePriority(*named, value=self.classes.get(named[1]))

    def restart_operator(self) -> None:
        """Another process, which remembers nothing."""
        self._silence = SilenceClock()

    def plan(self) -> Plan:
        """What an operator would do now."""
        return plan_training_run(self.snapshot(), self.settings, self.now)

    def step(self, *, writes_status: bool = True) -> Plan:
        """One pass; without its last write it is one of an operator that was killed in the middle."""
        plan = self.plan()
        for deletion in plan.delete:
            self.delete(deletion)
        for patch in plan.patch:
            is_pod = patch.resource == PODS
            json_patch(self.pods[patch.name] if is_pod else self.objects[patch.resource, patch.name], patch.operations)
        for manifest in plan.create:
            self.add(manifest)
        if plan.status is not None and writes_status:
            shown = {key: value for key, value in plan.status.items() if value is not None}
            reported = {key: self.run["status"][key] for key in ("trainer",) if key in self.run["status"]}
            self.run["status"] = {**shown, **reported}
        return plan

    def settle(self, max_passes: int = 20) -> None:
        """Passes until one changes nothing. Raises RuntimeError if that does not come."""
        for _ in range(max_passes):
            before = copy.deepcopy(self.run["status"])
            plan = self.step()
            if not plan.create and not plan.delete and not plan.patch and self.run["status"] == before:
                return
        raise RuntimeError(f"no rest after {max_passes} passes")

    # Scripts.

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def suspend(self, wish: bool) -> None:
        """What `kubectl patch` does to spec.suspend."""
        self.run["spec"]["suspend"] = wish
        self.run["metadata"]["generation"] += 1

    def say(self, resource: Resource, name: str, condition: str, status: str, message: str = "all is well") -> None:
        """A pool's or cache's controller writes a condition."""
        conditions = self.objects[resource, name].setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [entry for entry in conditions if entry["type"] != condition]
        conditions.append({"type": condition, "status": status, "reason": "Script", "message": message})

    def serve(self) -> None:
        """Pool, cache, engines and gateway become ready, as far as they exist."""
        for resource in (ROLLOUT_POOLS, IMAGE_CACHES):
            for kind, name in list(self.objects):
                if kind == resource:
                    self.say(resource, name, "Ready", "True")
        for resource, name in ((STATEFUL_SETS, engine_name("demo")), (DEPLOYMENTS, gateway_name("demo"))):
            owner = self.objects.get((resource, name))
            if owner is None:
                continue
            for ordinal in range(owner["spec"]["replicas"]):
                self.start_pod(f"{name}-{ordinal}", owner["spec"]["template"]["metadata"]["labels"][LABEL_COMPONENT])

    def say_of_workload(self, **conditions: tuple[str, str, str]) -> None:
        """Kueue writes conditions: status, reason and message by type."""
        status = self.objects[WORKLOADS, "demo"].setdefault("status", {})
        kept = [entry for entry in status.get("conditions", ()) if entry["type"] not in conditions]
        status["conditions"] = kept + [
            {"type": kind, "status": state, "reason": reason, "message": message}
            for kind, (state, reason, message) in conditions.items()
        ]

    def admit(self, flavor: str = "default") -> None:
        """Kueue admits the run, with one flavor for all its pod sets."""
        yes = ("True", "QuotaReserved", "Quota reserved in ClusterQueue lab")
        self.say_of_workload(QuotaReserved=yes, Admitted=yes, Evicted=("False", "QuotaReserved", ""))
        workload = self.objects[WORKLOADS, "demo"]
        sets = [{"name": one["name"], "flavors": {"cpu": flavor}} for one in workload["spec"]["podSets"]]
        workload["status"]["admission"] = {"clusterQueue": "lab", "podSetAssignments": sets}

    def start_pod(self, name: str, component: str) -> None:
        """A pod that runs and is Ready."""
        if name not in self.pods:
            self.add_pod(name, {LABEL_RUN: "demo", LABEL_RUN_UID: "run-uid", LABEL_COMPONENT: component})
        self.pods[name]["spec"]["nodeName"] = "node-a"
        self.pods[name]["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    def strand_pod(self, name: str, words: str = "0/5 nodes are available: 5 Insufficient nvidia.com/gpu.") -> None:
        """The scheduler finds no node for a pod."""
        scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
        self.pods[name]["spec"].pop("nodeName", None)
        self.pods[name]["status"] = {"phase": "Pending", "conditions": [scheduled]}

    def run_gang(self, attempt: int) -> None:
        """All pods of an attempt run."""
        for index in range(self._job(attempt)["spec"]["parallelism"]):
            self.start_pod(f"{trainer_job_name('demo', attempt)}-{index}", "trainer")

    def end_gang(self, attempt: int, *, exit_code: int, said: str = "", index: int = 0, reason: str = "Error") -> None:
        """One pod ends with `exit_code`, the others are killed for it, and the Job controller says how it ended."""
        job = self._job(attempt)
        for number in range(job["spec"]["parallelism"]):
            code, words = (exit_code, said) if number == index else (exit_code and 143, "")
            is_first = number == index
            self.end_pod(
                f"{name_of(job)}-{number}",
                code,
                words,
                later_seconds=0 if is_first else 5,
                reason=reason if is_first else "Error",
            )
        verdict = "PodFailurePolicy" if exit_code == 2 else "BackoffLimitExceeded"
        self.finish_job(attempt, "Failed" if exit_code else "Complete", verdict)

    def end_pod(
        self, name: str, exit_code: int, said: str = "", *, later_seconds: float = 0, reason: str = "Error"
    ) -> None:
        """The trainer container of a pod ends."""
        finished = rfc3339(self.now + timedelta(seconds=later_seconds))
        end = {"exitCode": exit_code, "finishedAt": finished, "message": said, "reason": reason}
        status = {"name": "trainer", "state": {"terminated": end}}
        phase = "Failed" if exit_code else "Succeeded"
        self.pods[name]["status"] = {"phase": phase, "containerStatuses": [status]}

    def finish_job(self, attempt: int, kind: str, reason: str = "") -> None:
        """The Job controller writes its verdict."""
        condition = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": "by the Job controller",
            "lastTransitionTime": rfc3339(self.now),
        }
        self._job(attempt)["status"] = {"conditions": [condition]}

    def bury_pods(self) -> None:
        """Pods that were told to go are gone."""
        self.pods = {name: pod for name, pod in self.pods.items() if "deletionTimestamp" not in pod["metadata"]}

    def report(self, attempt: int, **fields: Any) -> None:
        """The trainer writes its struct, and the API server notes it."""
        self.run["status"]["trainer"] = {"attempt": attempt, "updatedAt": rfc3339(self.now), **fields}
        note = {"manager": FIELD_MANAGER_TRAINER, "operation": "Apply", "time": rfc3339(self.now)}
        self.run["metadata"]["managedFields"] = [note]

    # What tests look at.

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition of the run."""
        found = {entry["type"]: entry for entry in self.run["status"].get("conditions", ())}
        return dict(found.get(kind, {}))

    def names(self, resource: Resource) -> list[str]:
        """Names of the objects of a kind, in order."""
        return sorted(name for kind, name in self.objects if kind == resource)

    def live_attempts(self) -> set[str]:
        """Attempts of the trainer with a pod that may still run."""
        return {
            pod["metadata"]["labels"]["sweyard.dev/attempt"]
            for pod in self.pods.values()
            if pod["metadata"]["labels"].get(LABEL_COMPONENT) == "trainer"
            and pod["status"]["phase"] in ("Pending", "Running")
        }

    def _job(self, attempt: int) -> Object:
        return self.objects[JOBS, trainer_job_name("demo", attempt)]

    def _is_ours(self, item: Manifest) -> bool:
        return is_owned_by(item, "run-uid")

    def _shared(self, resource: Resource, section: str, reference: str) -> Manifest | None:
        name = (self.run["spec"].get(section) or {}).get(reference) or "demo"
        return self.objects.get((resource, name))
