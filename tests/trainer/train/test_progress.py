import asyncio
import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_api.constants import EXIT_CODE_USER_FAULT
from sweyard_api.training_run import TrainerStatus
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.errors import ReportRefusedError
from sweyard_trainer.exit_codes import exit_code_of
from sweyard_trainer.progress.estimate import Phase, percentage, remaining_seconds
from sweyard_trainer.progress.reporter import ProgressReporter, StatusRefusedError, StatusUnavailableError
from sweyard_trainer.progress.run_progress import RunProgress
from sweyard_trainer.trajectory import Trajectory

SOLVED = Trajectory("final/a/0", "a", "final/a", (), Outcome.SOLVED, 1.0)

phases = st.fixed_dictionaries(
    {
        name: st.builds(Phase, st.integers(0, 50), st.integers(0, 50), st.floats(0, 1e4))
        for name in ("warmup", "evaluation", "step")
    }
)


@given(phases)
def test_the_share_done_is_100_exactly_when_nothing_is_left(plan: dict[str, Phase]) -> None:
    finished = all(phase.done >= phase.total for phase in plan.values())
    assert 0 <= percentage(plan) <= 100
    assert (percentage(plan) == 100) == finished


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        pytest.param({"step": Phase(10, 4, 40.0)}, 60, id="six steps of ten seconds"),
        pytest.param({"step": Phase(10, 2, 20.0)}, None, id="two steps tell little"),
        pytest.param({"step": Phase(10, 4, 80.0, 50.0)}, 60, id="a slow first step is no measure"),
        pytest.param({"step": Phase(10, 0, 0.0), "warmup": Phase(5, 5, 5.0)}, None, id="no step measured yet"),
        pytest.param({"step": Phase(2, 2, 9.0), "evaluation": Phase(8, 4, 2.0)}, 2, id="only evaluation left"),
        pytest.param({"step": Phase(2, 2, 9.0)}, 0, id="nothing left"),
        pytest.param({"step": Phase(0), "evaluation": Phase(8, 4, 2.0), "warmup": Phase(0)}, 2, id="evaluation alone"),
    ],
)
def test_the_time_left_is_told_once_the_longest_part_was_measured(plan: dict[str, Phase], seconds: int | None) -> None:
    assert remaining_seconds(plan) == seconds


class RecordingSink:
    def __init__(self, failures: int = 0, error: StatusUnavailableError | None = None) -> None:
        self.reports: list[dict[str, Any]] = []
        self.failures = failures
        self.error = error or StatusUnavailableError("connection refused")

    def publish(self, report: dict[str, Any]) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error
        self.reports.append(report)


def make_reporter(storage: Path, sink: RecordingSink, clock: list[float]) -> ProgressReporter:
    async def sleep(seconds: float) -> None:
        clock[0] += seconds

    return ProgressReporter(
        storage,
        TrainerStatus(),
        sink=sink,
        now=lambda: datetime(2030, 1, 2, tzinfo=UTC),
        monotonic=lambda: clock[0],
        sleep=sleep,
    )


async def test_many_updates_become_few_writes_and_the_last_one_counts(tmp_path: Path) -> None:
    sink, clock = RecordingSink(), [0.0]
    reporter = make_reporter(tmp_path, sink, clock)
    for step in range(100):
        reporter.update(step=step)
        await asyncio.sleep(0)
    await reporter.flush()
    assert len(sink.reports) <= 2
    assert sink.reports[-1]["step"] == 99
    assert sink.reports[-1]["updatedAt"] == "2030-01-02T00:00:00Z"
    assert json.loads((tmp_path / "progress.json").read_text())["step"] == 99


@pytest.mark.parametrize(
    ("failures", "error", "steps", "seconds"),
    [
        pytest.param(
            5, StatusUnavailableError("429"), [1], 15, id="away for a while: or the run would end a step short"
        ),
        pytest.param(99, StatusUnavailableError("refused"), [], 90, id="away for ever"),
        pytest.param(99, StatusRefusedError("404"), [], 0, id="the run was deleted"),
    ],
)
async def test_an_api_server_never_fails_the_run_and_is_waited_for_with_the_last_report(
    tmp_path: Path, failures: int, error: StatusUnavailableError, steps: list[int], seconds: float
) -> None:
    sink, clock = RecordingSink(failures, error), [0.0]
    reporter = make_reporter(tmp_path, sink, clock)
    reporter.update(step=1)
    await reporter.flush()
    assert [report["step"] for report in sink.reports] == steps
    assert clock == [seconds]


class FussySink(RecordingSink):
    """Takes no figures."""

    def publish(self, report: dict[str, Any]) -> None:
        if "metrics" in report:
            raise StatusRefusedError('TrainingRun "demo" is invalid: status.trainer.metrics: names have ...')
        super().publish(report)


async def test_a_report_that_is_refused_for_what_it_says_is_followed_by_a_sign_of_life_that_tells_so(
    tmp_path: Path,
) -> None:
    sink = FussySink()
    reporter = make_reporter(tmp_path, sink, [0.0])
    reporter.update(step=3, total_steps=9, metrics={"eval/e": 0.5}, message="step 4")
    await reporter.flush()
    (told,) = sink.reports
    assert told.pop("message").startswith('what the trainer reports is refused: TrainingRun "demo" is invalid: status.')
    assert told == {
        "attempt": 0,
        "step": 3,
        "totalSteps": 9,
        "updatedAt": "2030-01-02T00:00:00Z",
        "reportEverySeconds": 30,
    }
    assert reporter.report.message == "step 4", "the file tells all"


@pytest.mark.parametrize(
    ("failures", "error", "seconds"),
    [
        pytest.param(0, None, 0, id="taken at once"),
        pytest.param(4, StatusRefusedError("forbidden"), 6, id="a right that is given a moment later"),
        pytest.param(99, StatusUnavailableError("429"), 0, id="an API server that is away, which a later report finds"),
    ],
)
async def test_a_run_begins_with(
    tmp_path: Path, failures: int, error: StatusUnavailableError | None, seconds: float
) -> None:
    clock = [0.0]
    reporter = make_reporter(tmp_path, RecordingSink(failures, error), clock)
    await reporter.begin()
    assert clock == [seconds]


async def test_a_run_whose_reports_are_refused_from_the_start_does_not_begin(tmp_path: Path) -> None:
    clock = [0.0]
    reporter = make_reporter(tmp_path, RecordingSink(999, StatusRefusedError("demo is forbidden")), clock)
    with pytest.raises(ReportRefusedError, match="hangs: demo is forbidden; give its account that right") as told:
        await reporter.begin()
    assert exit_code_of(told.value) == EXIT_CODE_USER_FAULT
    assert clock == [90]


async def test_who_has_no_news_reports_all_the_same_and_promises_to_until_the_last(tmp_path: Path) -> None:
    sink, seconds = RecordingSink(), itertools.count(step=60)
    reporter = ProgressReporter(
        tmp_path, TrainerStatus(), sink=sink, monotonic=lambda: next(seconds), report_every_seconds=0.01
    )
    reporter.update(step=7)
    while len(sink.reports) < 3:
        await asyncio.sleep(0.01)
    await reporter.flush()
    assert {(report["step"], report["reportEverySeconds"]) for report in sink.reports} == {(7, 1)}
    told = len(sink.reports)
    await asyncio.sleep(0.05)
    assert len(sink.reports) == told


async def test_without_a_cluster_nothing_is_promised(tmp_path: Path) -> None:
    reporter = ProgressReporter(tmp_path, TrainerStatus(), monotonic=lambda: 0.0)
    reporter.update(step=7)
    await reporter.flush()
    assert "report_every_seconds" not in reporter.report.model_dump(exclude_none=True)


async def test_the_share_done_never_goes_back(tmp_path: Path) -> None:
    reporter = make_reporter(tmp_path, RecordingSink(), [0.0])
    for share in (10, 30, 20):
        reporter.update(progress_percentage=share)
    await reporter.flush()
    assert reporter.report.progress_percentage == 30


async def test_what_is_said_is_cut_to_what_the_status_takes(tmp_path: Path) -> None:
    sink = RecordingSink()
    reporter = make_reporter(tmp_path, sink, [0.0])
    reporter.update(message="m" * 5_000)
    await reporter.flush()
    assert [len(report["message"]) for report in sink.reports] == [1_024]


async def test_a_figure_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    sink = RecordingSink()
    reporter = make_reporter(tmp_path, sink, [0.0])
    reporter.update(metrics={"loss": 0.5, "rewardMean": float("nan"), "tokensPerSecond": float("inf")})
    await reporter.flush()
    assert [report["metrics"] for report in sink.reports] == [{"loss": 0.5}]


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        (3, ["evaluation final: 0 of 3 attempts ended, 0 solved", "evaluation final: 1 of 3 attempts ended, 1 solved"]),
        (1, ["evaluation final: 0 of 1 attempt ended, 0 solved", "evaluation final: 1 of 1 attempt ended, 1 solved"]),
    ],
    ids=["several", "one"],
)
async def test_an_evaluation_says_how_many_attempts_it_has_before_the_first_ends(
    tmp_path: Path, expected: int, told: list[str]
) -> None:
    reporter = make_reporter(tmp_path, RecordingSink(), [0.0])
    progress = RunProgress(reporter, {"step": Phase(8), "evaluation": Phase(3)}, 8)
    progress.update(phase="evaluating", message="evaluation: final")
    progress.attempts_begin("evaluation final", expected)
    messages = [reporter.report.message]
    progress.attempt_done(SOLVED)
    await reporter.flush()
    assert [*messages, reporter.report.message] == told


async def test_a_step_whose_attempts_are_not_counted_beforehand_says_how_many_ended(tmp_path: Path) -> None:
    reporter = make_reporter(tmp_path, RecordingSink(), [0.0])
    progress = RunProgress(reporter, {"step": Phase(8), "evaluation": Phase(3)}, 8)
    progress.attempts_begin("evaluation final", 3)
    progress.update(phase="rl", message="step 1: attempts under way")
    messages = []
    for _ in range(2):
        progress.attempt_done(SOLVED)
        messages.append(reporter.report.message)
    await reporter.flush()
    assert messages == ["step 1: 1 attempt ended, 1 solved", "step 1: 2 attempts ended, 2 solved"]


async def test_a_step_that_tells_no_reward_leaves_none_of_the_step_before(tmp_path: Path) -> None:
    reporter = make_reporter(tmp_path, RecordingSink(), [0.0])
    progress = RunProgress(reporter, {"step": Phase(8), "evaluation": Phase(3)}, 8)
    progress.evaluated({"held": 0.25})
    progress.step_done(1, {"rollout/reward_mean": 0.5, "rollout/infra_failure_fraction": 0.0})
    progress.step_done(2, {"rollout/infra_failure_fraction": 1.0})
    await reporter.flush()
    assert reporter.report.metrics == {"eval/held": 0.25, "infraFailureFraction": 1.0}
