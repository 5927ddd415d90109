"""What `make prove` says about learning: intervals, the control, and the document it writes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchmarks.prove.bootstrap import paired_difference
from benchmarks.prove.learning_run import ShufflingLearner
from benchmarks.prove.report import Section, write_section

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.trajectory import Trajectory


def test_a_gain_of_every_task_is_certain() -> None:
    found = paired_difference([0.0, 0.2, 0.4], [0.5, 0.7, 0.9], seed=0)
    assert (found.gain, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_gain_of_few_tasks_is_not() -> None:
    found = paired_difference([0.0] * 10 + [1.0] * 10, [1.0] * 5 + [0.0] * 5 + [1.0] * 6 + [0.0] * 4, seed=0)
    assert found.low < 0 < found.high


def test_the_interval_is_the_same_each_time() -> None:
    before, after = [0.0, 0.5, 1.0, 0.2], [0.3, 0.4, 1.0, 0.9]
    assert paired_difference(before, after, seed=1) == paired_difference(before, after, seed=1)


class Recorder:
    """Keeps what it is told to train on."""

    def __init__(self) -> None:
        self.groups: list[list[Trajectory]] = []

    async def train_step(self, groups: Sequence[Sequence[Trajectory]], version: int) -> Mapping[str, float]:
        self.groups += [list(group) for group in groups]
        return {}


def attempt(group: int, index: int, reward: float) -> Trajectory:
    return Trajectory(f"1/t/{group}-{index}", "t", f"{group}", (), Outcome.SOLVED, reward)


async def test_the_control_moves_rewards_within_their_group_only() -> None:
    recorder: Any = Recorder()
    groups = [[attempt(group, index, float(index < 4)) for index in range(8)] for group in range(20)]
    await ShufflingLearner(recorder, seed=0).train_step(groups, 0)
    told = [[each.reward for each in group] for group in recorder.groups]
    assert [sum(group) for group in told] == [4.0] * 20
    assert told != [[each.reward for each in group] for group in groups]
    assert [[each.attempt_id for each in group] for group in recorder.groups] == [
        [each.attempt_id for each in group] for group in groups
    ]


def test_a_proof_replaces_its_own_section_and_no_other(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text("# Performance\n\nBy hand.\n")
    now = datetime(2026, 1, 2, tzinfo=UTC)
    for line in ("old", "new"):
        write_section(Section("Learning", "make prove", [line]), document, now)
    write_section(Section("Pods", "make prove", ["512"]), document, now)
    text = document.read_text()
    assert "old" not in text
    assert text.index("By hand.") < text.index("new") < text.index("512")
    assert text.count("## Learning") == 1
    assert "2026-01-02" in text
