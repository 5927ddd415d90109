from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.evaluation.source import SourceEvaluation, evaluate_source
from sweyard_trainer.evaluation.verifier import NOTHING_HANDED_IN, verifier_scores
from sweyard_trainer.rollout.plan import AttemptPlan, select_eval_plans
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollouts.reading import read_attempts
from sweyard_trainer.trajectory import Trajectory


@dataclass
class ScoringWorker:
    """Scores patches from a table, and notes what it was asked; attempts end by rule."""

    scores: dict[str, float]
    failures: int = 0
    outcome: Callable[[AttemptPlan], Trajectory] | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def start(self) -> None: ...

    async def use_weights(self, version: int, num_engines: int | None = None) -> None: ...

    async def announce(self, images: Sequence[str]) -> None: ...

    async def verify(self, task: Task, *, patient: bool = False) -> str | None:
        return None

    async def regression_score(self, task: Task, patch: str) -> float:
        self.asked.append((task.id, patch))
        if self.failures:
            self.failures -= 1
            raise InfrastructureError(FailureReason.NODE_LOST, "gone")
        return self.scores[patch]

    async def run(self, plan: AttemptPlan) -> Trajectory:
        assert self.outcome is not None
        return self.outcome(plan)

    async def close(self) -> None: ...


async def test_the_tests_that_decide_have_no_say(make_task: Any, make_attempt: Any) -> None:
    """The worse of two patches is the one that solves the task: the verifier goes by what each breaks."""
    attempts = [make_attempt("t", 0, Outcome.SOLVED), make_attempt("t", 1, Outcome.UNSOLVED)]
    worker = ScoringWorker({"patch t 0": 0.5, "patch t 1": 1.0})
    scores, unverified = await verifier_scores([make_task("t")], attempts, WorkerPool([worker], 4), 0)
    assert scores == {attempts[0].attempt_id: 0.5, attempts[1].attempt_id: 1.0}
    assert unverified == {}


@pytest.mark.parametrize(
    ("outcome", "patch"),
    [
        pytest.param(Outcome.UNSOLVED, "", id="no patch, which breaks nothing"),
        pytest.param(Outcome.UNSOLVED, " \n", id="a blank patch"),
        pytest.param(Outcome.MAX_TURNS, "half done", id="a limit ended it"),
        pytest.param(Outcome.AGENT_ERROR, "half done", id="the agent failed"),
    ],
)
async def test_what_was_not_handed_in_is_chosen_last_and_not_run(
    make_task: Any, make_attempt: Any, outcome: Outcome, patch: str
) -> None:
    attempts = [make_attempt("t", 0, outcome, patch=patch), make_attempt("t", 1, Outcome.UNSOLVED)]
    worker = ScoringWorker({"patch t 1": 0.0})
    scores, _ = await verifier_scores([make_task("t")], attempts, WorkerPool([worker], 4), 0)
    assert scores == {attempts[0].attempt_id: NOTHING_HANDED_IN, attempts[1].attempt_id: 0.0}
    assert worker.asked == [("t", "patch t 1")]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"grader": "swe-bench"}, "kind swe-bench", id="hidden tests run with the rest"),
        pytest.param({"grader": "r2e-gym"}, "kind r2e-gym", id="there are no others"),
        pytest.param({"pass_to_pass": ()}, "without regression tests", id="nothing was green before"),
    ],
)
async def test_a_task_without_tests_of_that_kind_is_left_out_with_the_reason(
    make_task: Any, make_attempt: Any, changes: dict[str, Any], says: str
) -> None:
    worker = ScoringWorker({})
    task = make_task("t", **changes)
    attempts = [make_attempt("t", 0), make_attempt("t", 1)]
    scores, unverified = await verifier_scores([task], attempts, WorkerPool([worker], 4), 0)
    assert (scores, worker.asked) == ({}, [])
    assert says in unverified["t"]


@pytest.mark.parametrize(("failures", "judged"), [(0, True), (2, True), (3, False)])
async def test_infrastructure_failures_are_tried_again_and_are_no_score(
    make_task: Any, make_attempt: Any, failures: int, judged: bool
) -> None:
    worker = ScoringWorker({"patch t 0": 1.0}, failures)
    attempts = [make_attempt("t", 0), make_attempt("t", 1, patch=""), make_attempt("t", 2, Outcome.ENV_INFRA)]
    scores, unverified = await verifier_scores([make_task("t")], attempts, WorkerPool([worker], 4), retries=2)
    assert bool(scores) is judged
    assert bool(unverified) is not judged


async def test_a_source_is_evaluated_verified_and_written(tmp_path: Path, make_task: Any, make_attempt: Any) -> None:
    """Of two attempts at each task the first breaks something; it is the second that solves the task."""

    def attempt(plan: AttemptPlan) -> Trajectory:
        index = int(plan.attempt_id.rsplit("/", 1)[1])
        ended: Trajectory = make_attempt(plan.task.id, index, Outcome.SOLVED if index else Outcome.UNSOLVED, f"{index}")
        return ended

    worker = ScoringWorker({"0": 0.5, "1": 1.0}, outcome=attempt)
    tasks = [make_task("x", "red"), make_task("y", "blue"), make_task("z", "blue", grader="swe-bench")]
    plans = select_eval_plans("eval-final-held", tasks, 2, temperature=1.0, seed=0, set_aside=())
    evaluation = SourceEvaluation("final", "held", plans, 2, True, 0, "run", tmp_path)
    heard: list[Trajectory] = []
    result = await evaluate_source(evaluation, WorkerPool([worker], 4), heard.append)
    assert result.figures.pass_at == {1: 0.5, 2: 1.0}
    assert result.figures.best_at == {2: 1.0}
    assert result.unverified.startswith("1 task: tasks of kind swe-bench")
    assert {name: figures.tasks for name, figures in result.repositories.items()} == {"blue": 2, "red": 1}
    assert len(heard) == 6
    assert sorted(path.name for path in (tmp_path / "predictions").iterdir()) == [
        "final-held.attempt-2.jsonl",
        "final-held.best.jsonl",
        "final-held.jsonl",
    ]
    assert [path.name for path in (tmp_path / "rollouts").iterdir()] == ["eval-final-held.parquet"]
    assert len(read_attempts(tmp_path / "rollouts" / "eval-final-held.parquet")) == 6
