"""What a trainer may write of a run: its own part of its own run's status."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.chart.admission.accounts import NAMESPACE, RUNS, Account, Create, RefusedError

from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver


def run(name: str) -> dict[str, Any]:
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}}
    return {"apiVersion": "sweyard.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="session")
def runs(create: Create, governed: TestCluster) -> None:
    """Two runs, as the operator keeps their status."""
    for name in ("tiny", "other"):
        create(run(name))
        status = json.dumps({"status": {"phase": "Running", "step": 1, "metrics": {"rewardMean": 0.5}}})
        governed.kubectl("-n", NAMESPACE, "patch", "tr", name, "--subresource=status", "--type=merge", "-p", status)


def report(name: str, status: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "sweyard.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": name}, "status": status}


def apply_status(account: Account, name: str, status: dict[str, Any]) -> dict[str, Any]:
    path = f"{RUNS}/{name}/status?fieldManager=sweyard-trainer&force=true"
    applied: dict[str, Any] = json.loads(
        account.call("PATCH", path, report(name, status), "application/apply-patch+yaml")
    )
    return applied


def test_a_trainer_reports_on_its_own_run(trainer: Account, runs: None) -> None:
    for step in (1, 2):
        status = apply_status(trainer, "tiny", {"trainer": {"phase": "rl", "step": step, "updatedAt": "now"}})["status"]
        assert status["trainer"]["step"] == step
        assert status["phase"] == "Running"


def test_a_trainer_may_be_the_first_to_report(
    trainer: Account, create: Create, account: Callable[..., Account]
) -> None:
    create(run("fresh"))
    first = account("fresh-trainer", "sweyard-trainer")
    assert apply_status(first, "fresh", {"trainer": {"step": 0}})["status"] == {"trainer": {"step": 0}}


def test_a_trainer_does_not_report_on_another_run(trainer: Account, runs: None) -> None:
    with pytest.raises(RefusedError, match=f"only system:serviceaccount:{NAMESPACE}:other-trainer may report"):
        apply_status(trainer, "other", {"trainer": {"step": 1}})


@pytest.mark.parametrize(
    "status",
    [{"phase": "Succeeded"}, {"step": 9}, {"metrics": {"rewardMean": 1.0}}, {"restarts": 1}, {"conditions": []}],
    ids=lambda status: next(iter(status)),
)
def test_a_trainer_writes_nothing_else_of_the_status(status: dict[str, Any], trainer: Account, runs: None) -> None:
    with pytest.raises(RefusedError, match=r"may write status\.trainer and nothing else"):
        apply_status(trainer, "tiny", {"trainer": {"step": 1}, **status})


def test_a_trainer_takes_nothing_out_of_the_status(trainer: Account, runs: None) -> None:
    with pytest.raises(RefusedError, match=r"may write status\.trainer and nothing else"):
        trainer.patch(f"{RUNS}/tiny/status", [{"op": "remove", "path": "/status/phase"}])


@pytest.mark.parametrize(
    ("report", "told"),
    [
        ({"message": "m" * 1_025}, "Too long"),
        ({"lastCheckpoint": "c" * 4_097}, "Too long"),
        ({"updatedAt": "u" * 65}, "Too long"),
        ({"metrics": {"n" * 257: 1.0}}, "names have at most 256 characters"),
        ({"metrics": {str(number): 1.0 for number in range(65)}}, "Too many"),
    ],
    ids=lambda report: next(iter(report)) if isinstance(report, dict) else "",
)
def test_a_report_leaves_room_for_the_rest_of_the_status(
    report: dict[str, Any], told: str, trainer: Account, runs: None
) -> None:
    """Most of it is copied, and what is too large for etcd no operator could write any more."""
    with pytest.raises(RefusedError, match=told):
        apply_status(trainer, "tiny", {"trainer": report})


def test_a_trainer_does_not_change_runs(trainer: Account, runs: None) -> None:
    with pytest.raises(RefusedError, match=r'cannot patch resource "trainingruns"'):
        trainer.patch(f"{RUNS}/tiny", [{"op": "add", "path": "/spec/suspend", "value": True}])
