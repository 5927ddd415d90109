"""What the trainer says of itself, as a real API server takes it."""

import uuid
from typing import Any

import pytest
from kubernetes import client, config

from sweyard_api.constants import API_VERSION
from sweyard_api.training_run import TrainerStatus
from sweyard_cluster.testing import TestCluster
from sweyard_trainer.progress.cluster_status import ClusterStatus

pytestmark = pytest.mark.apiserver

SPEC = {"preset": "tiny", "tasks": {"train": {"dataset": "made", "split": "train"}}}


def test_reports_are_taken_without_figures_after_one_that_had_some_and_with_any_character(kinds: TestCluster) -> None:
    runs = f"/apis/{API_VERSION}/namespaces/default/trainingruns"
    name = f"r-{uuid.uuid4().hex[:6]}"
    run = {"apiVersion": API_VERSION, "kind": "TrainingRun", "metadata": {"name": name}, "spec": SPEC}
    kinds.api.call("POST", runs, run)
    uid = kinds.api.get(f"{runs}/{name}")["metadata"]["uid"]
    sink = ClusterStatus(
        client.CustomObjectsApi(config.new_client_from_config(str(kinds.kubeconfig))), "default", name, uid
    )

    sink.publish(report(attempt=0, step=1, metrics={"rewardMean": 0.5}))
    sink.publish(report(attempt=1, step=1))
    told = kinds.api.get(f"{runs}/{name}")["status"]["trainer"]
    assert (told["attempt"], told.get("metrics", {})) == (1, {})
    sink.publish(report(attempt=1, step=2, metrics={"loss": 0.25}, message="ready \U0001f680 \u2028 \u2588"))
    told = kinds.api.get(f"{runs}/{name}")["status"]["trainer"]
    assert (told["metrics"], told["message"]) == ({"loss": 0.25}, "ready \ufffd \u2028 \u2588")
    kinds.api.call("DELETE", f"{runs}/{name}")


def report(**fields: Any) -> dict[str, Any]:
    return TrainerStatus(**fields).model_dump(by_alias=True, exclude_none=True)
