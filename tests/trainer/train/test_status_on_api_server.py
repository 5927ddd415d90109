"""What the trainer says of itself, as a real API server takes it."""

import asyncio
import itertools
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from sweyard_api.constants import API_VERSION
from sweyard_api.training_run import TrainerStatus
from sweyard_cluster.testing import TestCluster
from sweyard_trainer.errors import ReportRefusedError
from sweyard_trainer.progress.cluster_status import ClusterStatus
from sweyard_trainer.progress.reporter import ProgressReporter, StatusRefusedError

pytestmark = pytest.mark.apiserver

SPEC = {"preset": "tiny", "tasks": {"train": {"dataset": "made", "split": "train"}}}


@pytest.fixture
def run(kinds: TestCluster) -> Iterator[str]:
    """Path of a run."""
    runs = f"/apis/{API_VERSION}/namespaces/default/trainingruns"
    name = f"r-{uuid.uuid4().hex[:6]}"
    kinds.api.call(
        "POST", runs, {"apiVersion": API_VERSION, "kind": "TrainingRun", "metadata": {"name": name}, "spec": SPEC}
    )
    yield f"{runs}/{name}"
    kinds.api.call("DELETE", f"{runs}/{name}")


@pytest.fixture
def sink(kinds: TestCluster, run: str) -> ClusterStatus:
    api = client.CustomObjectsApi(config.new_client_from_config(str(kinds.kubeconfig)))
    return ClusterStatus(api, "default", run.rpartition("/")[2], kinds.api.get(run)["metadata"]["uid"])


def test_reports_are_taken_without_figures_after_one_that_had_some_and_with_any_character(
    kinds: TestCluster, run: str, sink: ClusterStatus
) -> None:
    sink.publish(report(attempt=0, step=1, metrics={"rewardMean": 0.5}))
    sink.publish(report(attempt=1, step=1))
    told = kinds.api.get(run)["status"]["trainer"]
    assert (told["attempt"], told.get("metrics", {})) == (1, {})
    sink.publish(report(attempt=1, step=2, metrics={"loss": 0.25}, message="ready \U0001f680 \u2028 \u2588"))
    told = kinds.api.get(run)["status"]["trainer"]
    assert (told["metrics"], told["message"]) == ({"loss": 0.25}, "ready \ufffd \u2028 \u2588")


async def test_what_is_refused_for_its_figures_is_told_without_them(
    kinds: TestCluster, run: str, sink: ClusterStatus, tmp_path: Path
) -> None:
    reporter = ProgressReporter(tmp_path, TrainerStatus(), sink=sink, monotonic=time.monotonic)
    for step, name in enumerate(("loss", "eval/" + "e" * 300)):
        reporter.update(step=step, metrics={name: 0.5})
        await reporter.flush()
    told = kinds.api.get(run)["status"]["trainer"]
    assert told["message"].startswith("what the trainer reports is refused: TrainingRun.sweyard.dev ")
    assert (told["step"], told["reportEverySeconds"], "metrics" in told) == (1, 30, False)


@pytest.mark.parametrize("unfit", [{"novel": 1}, {"phase": "dreaming"}, {"step": "one"}])
def test_what_an_older_api_does_not_know_is_refused_and_not_waited_for(
    sink: ClusterStatus, unfit: dict[str, Any]
) -> None:
    with pytest.raises(StatusRefusedError, match=r"status\.trainer"):
        sink.publish({"attempt": 1, **unfit})


async def test_one_that_may_not_report_at_all_is_told_so_by_the_api_server(
    kinds: TestCluster, run: str, tmp_path: Path
) -> None:
    nobody = config.new_client_from_config(str(kinds.kubeconfig))
    nobody.set_default_header("Impersonate-User", "system:serviceaccount:default:nobody")
    sink = ClusterStatus(client.CustomObjectsApi(nobody), "default", run.rpartition("/")[2], "")
    times = itertools.count(step=50.0)
    reporter = ProgressReporter(
        tmp_path, TrainerStatus(), sink=sink, monotonic=lambda: next(times), sleep=lambda _: asyncio.sleep(0)
    )
    with pytest.raises(ReportRefusedError, match='User "system:serviceaccount:default:nobody" cannot patch resource'):
        await reporter.begin()


def report(**fields: Any) -> dict[str, Any]:
    return TrainerStatus(**fields).model_dump(by_alias=True, exclude_none=True)
