"""What the proof of lineage takes for a breach."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.prove.lineage import breaches

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.trajectory import Segment, Trajectory


def attempt(step: int, task: str, index: int, version: int) -> Trajectory:
    versions = np.array([-1, version], np.int32)
    segment = Segment(np.array([1, 2], np.int32), versions >= 0, np.zeros(2, np.float32), versions)
    return Trajectory(f"{step}/{task}/{index}", task, f"{step}/{task}", (segment,), Outcome.SOLVED, 1.0)


SOUND = {
    1: [attempt(1, "a", 0, 1), attempt(1, "a", 1, 1), attempt(1, "b", 0, 1), attempt(1, "b", 1, 1)],
    2: [attempt(1, "c", 0, 1), attempt(1, "c", 1, 2), attempt(2, "a", 0, 2), attempt(2, "a", 1, 2)],
}
Change = Callable[[dict[int, list[Trajectory]]], Mapping[int, Sequence[Trajectory]]]


@pytest.mark.parametrize(
    ("steps", "change", "sentence"),
    [
        pytest.param([1, 2], lambda sound: sound, None, id="sound"),
        pytest.param([1], lambda sound: {1: sound[1]}, "of the steps [1]", id="step-lost"),
        pytest.param([1, 2, 2], lambda sound: sound, "of the steps [1, 2, 2]", id="step-doubled"),
        pytest.param([1, 2], lambda sound: {1: sound[1]}, "rollouts of [1]", id="rollouts-lost"),
        pytest.param([1, 2], lambda sound: {1: sound[1], 2: sound[1]}, "twice: ['1/a/0'", id="attempt-doubled"),
        pytest.param(
            [1, 2],
            lambda sound: {1: sound[1], 2: [*sound[2], attempt(2, "b", 0, 2), replace(sound[2][0], group_id="2/c2")]},
            "twice: ['1/c/0']",
            id="attempt-in-two-groups",
        ),
        pytest.param(
            [1, 2],
            lambda sound: {1: sound[1][:2], 2: [attempt(2, "a", 0, 2), attempt(2, "a", 1, 2), attempt(1, "a", 2, 1)]},
            None,
            id="one-task",
        ),
        pytest.param(
            [1, 2],
            lambda sound: {1: sound[1], 2: [attempt(2, "a", 0, 2), replace(attempt(2, "a", 1, 2), group_id="2/a2")]},
            "tasks were drawn {",
            id="task-before-others",
        ),
        pytest.param(
            [1, 2],
            lambda sound: {1: sound[1], 2: [attempt(2, "c", 0, 3)]},
            "step 2 has tokens of the versions [3]",
            id="of-the-future",
        ),
        pytest.param(
            [1, 2],
            lambda sound: {1: [attempt(1, "a", 0, 0)], 2: sound[2]},
            "step 1 has tokens of the versions [0]",
            id="of-the-untrained",
        ),
    ],
)
def test_what_no_undisturbed_run_has_is_told(steps: list[int], change: Change, sentence: str | None) -> None:
    found = breaches(steps, change(dict(SOUND)), 2)
    if sentence is None:
        assert found == []
    else:
        assert any(sentence in told for told in found), found
