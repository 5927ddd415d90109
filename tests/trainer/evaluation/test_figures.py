from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.evaluation.figures import (
    TaskAttempts,
    figures_of,
    sampled_versions,
    summarise,
    task_attempts,
)
from sweyard_trainer.trajectory import Segment


def task(*solved: bool, repository: str = "r", **fields: Any) -> TaskAttempts:
    return TaskAttempts(repository, solved, official=sum(solved), **fields)


def test_infrastructure_failures_are_outside_of_every_fraction(make_attempt: Any) -> None:
    outcomes = [Outcome.SOLVED, Outcome.UNSOLVED, Outcome.TRUNCATED, Outcome.ENV_INFRA, Outcome.EVAL_INFRA]
    attempts = [make_attempt("t", index, outcome) for index, outcome in enumerate(outcomes)]
    figures = figures_of([task_attempts("r", attempts, {})], 5)
    assert (figures.attempts, figures.solved, figures.infra_failures) == (3, 1, 2)
    assert figures.solved_fraction == pytest.approx(1 / 3)
    assert figures.pass_at == pytest.approx({1: 1 / 3, 2: 2 / 3})


def test_a_task_of_which_nothing_was_graded_is_in_no_figure() -> None:
    figures = figures_of([task(True), task(infra_failures=3)], 1)
    assert (figures.tasks, figures.solved_fraction, figures.infra_failures) == (1, 1.0, 3)


def test_tasks_count_alike_however_many_of_their_attempts_were_graded() -> None:
    figures = figures_of([task(True, True, True, True), task(False)], 4)
    assert figures.solved_fraction == 0.5
    assert figures.pass_at == {1: 0.5, 2: 1.0, 4: 1.0}, "of two attempts and more, only the first task can tell"


def test_the_report_names_the_weights_that_sampled_its_tokens_and_no_others(make_attempt: Any) -> None:
    def segment(mask: list[int], versions: list[int]) -> Segment:
        ids, logprobs = np.zeros(len(mask), np.int32), np.zeros(len(mask), np.float32)
        return Segment(ids, np.array(mask, np.bool_), logprobs, np.array(versions, np.int32))

    one = replace(make_attempt("t", 0), segments=(segment([0, 1, 1], [-1, 4, 4]), segment([0, 1], [-1, 3])))
    versions = sampled_versions([one, make_attempt("t", 1)])
    assert versions == (3, 4)
    result = replace(summarise("held", [], 1), weight_versions=versions)
    assert result.report()["weight_versions"] == [3, 4]
    assert sampled_versions([]) == ()


def test_nothing_attempted_is_no_share_and_the_widest_interval() -> None:
    figures = figures_of([], 4)
    assert (figures.solved_fraction, figures.low, figures.high, figures.pass_at) == (0.0, 0.0, 1.0, {})


def test_one_attempt_a_task_has_the_plain_wilson_interval() -> None:
    figures = figures_of([task(number < 15) for number in range(148)], 1)
    assert (figures.low, figures.high) == pytest.approx((0.0624, 0.1605), abs=6e-5)
    assert figures.pass_at == {1: figures.solved_fraction}
    assert figures.best_at == {}


def test_best_at_k_is_of_the_tasks_that_the_verifier_judged() -> None:
    judged = task(False, True, scores=(0.0, 1.0))
    figures = figures_of([judged, task(True, True)], 2)
    assert figures.best_at == {2: 1.0}
    assert figures.pass_at == {1: 0.75, 2: 1.0}


def test_each_repository_has_its_own_figures() -> None:
    result = summarise("held", [task(True, repository="b"), task(False, repository="a"), task(True, repository="a")], 1)
    assert {name: figures.solved_fraction for name, figures in result.repositories.items()} == {"a": 0.5, "b": 1.0}
    assert list(result.repositories) == ["a", "b"]
    assert result.metrics()["repository/a/solved_fraction"] == 0.5
    assert result.report()["repositories"]["b"]["tasks"] == 1


def test_attempts_that_the_verifier_did_not_see_have_no_scores(make_attempt: Any) -> None:
    attempts = [make_attempt("t", 0), make_attempt("t", 1), make_attempt("t", 2, Outcome.ENV_INFRA)]
    scores = {attempts[0].attempt_id: 1.0, attempts[1].attempt_id: 0.5}
    assert task_attempts("r", attempts, scores).scores == (1.0, 0.5)
    assert task_attempts("r", attempts, {attempts[0].attempt_id: 1.0}).scores is None
