"""A run on a cluster: its TrainingRun and its RolloutPool."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kubernetes import client

from sweyard_api.constants import GROUP, VERSION
from sweyard_cli.cluster.elsewhere import told_elsewhere
from sweyard_cli.cluster.sentences import UnreachableError, told_plainly
from sweyard_cli.errors import UserError
from sweyard_cli.report.text import visible
from sweyard_cli.view.snapshot import RunSnapshot, SandboxCounts, snapshot_of_trainer

STAGES = ("ImagesReady", "SandboxesReady", "InferenceReady", "TrainerReady")
REQUEST_TIMEOUT_SECONDS = 15


class ClusterRunSource:
    """Reads the status of a TrainingRun. An API server that is away for a while does not end the looking."""

    def __init__(self, api: client.CustomObjectsApi, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._last: RunSnapshot | None = None

    def snapshot(self) -> RunSnapshot:
        """The state now, or the last known one. Raises UserError when the run does not exist, or was never seen."""
        try:
            self._last = self._read()
        except UnreachableError as error:
            if self._last is None:
                raise
            return replace(self._last, message=f"as last seen: {error}")
        return self._last

    def _read(self) -> RunSnapshot:
        run = self._get("trainingruns", self._name)
        if run is None:
            raise UserError(
                f"TrainingRun {self._namespace}/{self._name} does not exist; {told_elsewhere(self._api, self._name)}"
            )
        pool_name = (run["spec"].get("sandboxes") or {}).get("poolRef") or self._name
        return snapshot_of_run(run, self._get("rolloutpools", pool_name))

    def _get(self, plural: str, name: str) -> dict[str, Any] | None:
        with told_plainly(f"{plural}/{name}"):
            try:
                found = self._api.get_namespaced_custom_object(
                    GROUP, VERSION, self._namespace, plural, name, _request_timeout=REQUEST_TIMEOUT_SECONDS
                )
            except client.ApiException as error:
                if error.status == 404:
                    return None
                raise
        return dict(found)


def snapshot_of_run(run: Mapping[str, Any], pool: Mapping[str, Any] | None) -> RunSnapshot:
    """Pure: from the objects as the API server shows them."""
    status = run.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    stages = {
        stage: "True" if conditions[stage].get("status") == "True" else str(conditions[stage].get("reason", "Unknown"))
        for stage in STAGES
        if stage in conditions
    }
    base = snapshot_of_trainer(run["metadata"]["name"], status.get("phase") or "Pending", status)
    return RunSnapshot(
        name=base.name,
        phase=base.phase,
        step=base.step,
        total_steps=base.total_steps,
        progress_percentage=base.progress_percentage,
        remaining_seconds=base.remaining_seconds,
        metrics=base.metrics,
        sandboxes=_sandbox_counts(pool),
        stages=stages,
        message=visible(_message(conditions, status.get("trainer") or {})),
    )


def _sandbox_counts(pool: Mapping[str, Any] | None) -> SandboxCounts | None:
    if pool is None:
        return None
    status = pool.get("status") or {}
    return SandboxCounts(
        ready=int(status.get("ready", 0)),
        claimed=int(status.get("claimed", 0)),
        starting=int(status.get("starting", 0)),
        failed=sum(int(n) for n in (status.get("failures") or {}).values()),
    )


def _message(conditions: Mapping[str, Mapping[str, Any]], trainer: Mapping[str, Any]) -> str:
    """The sentence that matters now: a failure, else what is waited for, else what the trainer says."""
    for kind in ("Failed", "Succeeded", "Suspended"):
        if conditions.get(kind, {}).get("status") == "True":
            return str(conditions[kind].get("message", ""))
    for kind in STAGES:
        if kind in conditions and conditions[kind].get("status") != "True":
            return str(conditions[kind].get("message", ""))
    return str(trainer.get("message", ""))
