"""A TrainingRun from apply to Succeeded, through kill -9 of operator and trainer, to a deletion that leaves nothing."""

import time
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.installation import Installation

from sweyard_cli.report.write import CURVE_FILE, REPORT_FILE, write_report

pytestmark = pytest.mark.kubelet

STEPS = 4
SPEC: dict[str, Any] = {
    "preset": "tiny",
    "steps": STEPS,
    "model": {"scratch": {"layers": 2, "hiddenSize": 64, "vocabularySize": 400}},
    "warmup": {"steps": 20, "batchSize": 8},
    "rollout": {"groupsPerStep": 2, "groupSize": 4, "maxConcurrent": 8, "maxTokensPerTurn": 24},
    "reward": {"verifyTasks": False},
    "checkpoint": {"everySteps": 1},
    "sandboxes": {"replicas": 8},
    "tasks": {"train": {"dataset": "gauge", "split": "train"}, "eval": [{"dataset": "gauge", "split": "heldout"}]},
}


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("transformers", id="engine in the trainer"),
        pytest.param("vllm", id="vLLM", marks=pytest.mark.slow),
    ],
)
def test_a_run_survives_its_operator_and_its_trainer_and_leaves_nothing(
    installation: Installation, engine: str, tmp_path: Path
) -> None:
    namespace = installation.make_namespace()
    installation.apply_run(namespace, {**SPEC, "inference": {"engine": engine}})

    installation.wait_for_step(namespace, 1, deadline_seconds=600)
    installation.kill("sweyard-system", "operator", "sweyard_operator")
    installation.kill(namespace, "trainer", "sweyard_trainer --config")
    status = installation.wait_for_end(namespace, deadline_seconds=600)

    assert (status["phase"], status["step"], status["restarts"]) == ("Succeeded", STEPS, 1)
    assert status["trainer"]["metrics"].keys() >= {"rewardMean", "eval/gauge-heldout"}
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    assert conditions["ImagesReady"]["status"] == "True"
    assert "1 image is on its nodes" in conditions["ImagesReady"]["message"]
    installation.fetch_files(namespace, tmp_path / "r")
    check_report(tmp_path / "r")
    assert (tmp_path / "r" / "model" / "tokenizer.json").is_file()
    assert [*(tmp_path / "r" / "weights").rglob("*.safetensors")]
    # The run is over and holds nothing that costs: its volume and its logs are left to be read.
    until_gone(installation, namespace, {"pods", "statefulsets", "deployments", "daemonsets", "rolloutpools", "leases"})
    assert installation.get(namespace, "jobs")["items"]

    installation.kubectl("-n", namespace, "delete", "trainingrun", "r")
    until_gone(installation, namespace, None)


def check_report(output: Path) -> None:
    """Figures of each step once, whichever life did it, a curve, and attempts to read."""
    results = write_report(output)
    assert results.is_finished
    assert results.summary["steps"] == STEPS
    assert [step for step, _ in results.series("rollout/reward_mean")] == [*range(1, STEPS + 1)]
    assert [*results.steps] == [*range(1, STEPS + 1)]
    assert [evaluation.label for evaluation in results.evaluations] == ["untrained", "warmed-up", "final"]
    assert (output / CURVE_FILE).read_bytes().startswith(b"\x89PNG")
    assert "gauge" in (output / REPORT_FILE).read_text()


def until_gone(
    installation: Installation,
    namespace: str,
    kinds: set[str] | None,
    given: Set[str] = frozenset(),
    deadline_seconds: float = 60,
) -> None:
    """Wait until nothing of `kinds` (None: of anything) is left in the namespace but what was `given`, finished
    trainers aside."""
    give_up_at = time.monotonic() + deadline_seconds
    while left := remaining(installation, namespace, kinds) - given:
        assert time.monotonic() < give_up_at, left
        time.sleep(1)


def remaining(installation: Installation, namespace: str, kinds: set[str] | None) -> set[str]:
    left = installation.left_in(namespace)
    if kinds is None:
        return left
    wanted = {name for name in left if name.partition("/")[0] in kinds}
    return {name for name in wanted if not name.startswith("pods/r-trainer-")}
