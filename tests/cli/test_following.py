"""Following a run: a line for each change in a pipe, one panel on a terminal."""

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from sweyard_cli.view.live import follow, render_line, render_panel, sparkline
from sweyard_cli.view.snapshot import RunSnapshot, SandboxCounts

RUNNING = RunSnapshot(
    "tiny",
    "Running",
    3,
    30,
    40,
    100,
    {"rewardMean": 0.5, "eval/heldout": 0.25},
    message="step 4: 2 attempts ended, 1 solved",
)
DONE = replace(RUNNING, phase="Succeeded", step=30, progress_percentage=100, remaining_seconds=0, message="finished")


class Scripted:
    """RunSource that goes through given states."""

    def __init__(self, states: Sequence[RunSnapshot]) -> None:
        self._states = iter(states)

    def snapshot(self) -> RunSnapshot:
        return next(self._states)


def followed(states: Sequence[RunSnapshot], *, terminal: bool, poll_seconds: float = 2) -> tuple[RunSnapshot, str]:
    width = 120 if terminal else 10_000
    console = Console(file=StringIO(), width=width, force_terminal=terminal, color_system=None)
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    last = follow(Scripted(states), console, poll_seconds=poll_seconds, sleep=sleep, monotonic=lambda: clock[0])
    assert isinstance(console.file, StringIO)
    return last, console.file.getvalue()


def test_a_pipe_gets_a_line_for_each_change_and_none_for_the_passing_of_time() -> None:
    states = [
        RUNNING,
        replace(RUNNING, remaining_seconds=99),
        replace(RUNNING, message="step 4: 3 attempts ended, 1 solved"),
        replace(RUNNING, message="step 4: training"),
        replace(RUNNING, step=4, metrics={"rewardMean": 0.75}, message="step 5: training"),
        DONE,
    ]
    last, told = followed(states, terminal=False)
    lines = told.splitlines()
    assert len(lines) == 3
    assert "step 3/30 · reward 0.500 · heldout tasks solved 25.0% · about 1 min 40 s left" in lines[0]
    assert "step 4/30 · reward 0.750" in lines[1]
    assert "Succeeded" in lines[2]
    assert last is DONE
    assert "\x1b" not in told


def test_counts_that_change_all_the_time_are_told_now_and_then() -> None:
    states = [
        replace(RUNNING, sandboxes=SandboxCounts(ready=count), message=f"step 4: {count} attempts ended, 1 solved")
        for count in range(60)
    ]
    lines = followed([*states, DONE], terminal=False)[1].splitlines()
    assert [line.partition("]")[0] for line in lines[:3]] == ["[0 s", "[16 s", "[32 s"]
    assert "sandboxes 8 ready" in lines[1]
    assert "step 4: 8 attempts ended" in lines[1]
    assert len(lines) == 9


def test_a_start_that_takes_minutes_is_told_in_growing_pauses_and_each_part_of_it_at_once() -> None:
    loading = RunSnapshot("tiny", "Starting", message="loading the model")
    states = [loading] * 65 + [replace(loading, message="starting the workers")] * 10
    lines = followed([*states, DONE], terminal=False)[1].splitlines()
    assert [line.partition(" · ")[0] for line in lines[:5]] == [
        "[0 s] Starting",
        "[16 s] Starting",
        "[46 s] Starting",
        "[1 min 46 s] Starting",
        "[2 min 10 s] Starting",
    ]
    assert lines[3].endswith("loading the model")
    assert lines[4].endswith("starting the workers")
    shown = followed([*states[:1], DONE], terminal=True)[1]
    assert "loading the model" in shown


def test_a_pool_that_fills_is_one_stage() -> None:
    filling = [
        replace(RUNNING, stages={"SandboxesReady": "Filling"}, message=f"{count} of 9 sandboxes are ready")
        for count in range(5)
    ]
    assert len(followed([*filling, DONE], terminal=False)[1].splitlines()) == 2


def test_a_warm_up_is_followed_step_by_step() -> None:
    steps = [
        replace(RunSnapshot("tiny", "Warm-up"), message=f"warm-up: step {step} of 40, loss 1.{step}")
        for step in range(40)
    ]
    lines = followed([*steps, DONE], terminal=False)[1].splitlines()
    assert len(lines) == 6
    assert "warm-up: step 8 of 40, loss 1.8" in lines[1]
    assert "warm-up: step 8 of 40" in followed([*steps[8:9], DONE], terminal=True)[1]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (3, "about 10 s"),
        (58, "about 1 min"),
        (104, "about 1 min 40 s"),
        (196, "about 3 min"),
        (4000, "about 1 h 07 min"),
    ],
)
def test_an_estimate_is_told_as_fine_as_it_is(seconds: int, told: str) -> None:
    assert render_line(replace(RUNNING, remaining_seconds=seconds)).split(" · ")[-2] == f"{told} left"


def test_work_that_is_done_has_no_time_left_while_it_ends() -> None:
    ending = replace(DONE, phase="Running", remaining_seconds=0)
    assert "left" not in render_line(ending)
    console = Console(file=StringIO(), width=120)
    console.print(render_panel(ending, [], 1.0))
    assert isinstance(console.file, StringIO)
    assert "left" not in console.file.getvalue()


def test_a_terminal_gets_a_panel_with_all_that_is_known() -> None:
    counts = SandboxCounts(ready=4, claimed=3, starting=2, failed=1)
    state = replace(DONE, sandboxes=counts, stages={"ImagesReady": "True", "InferenceReady": "EnginesStarting"})
    _, told = followed([RUNNING, state], terminal=True)
    for part in (
        "tiny: Succeeded",
        "30 of 30",
        "4 ready  3 claimed  2 starting  1 replaced",
        "EnginesStarting",
        "0.500",
    ):
        assert part in told


def test_the_frame_of_a_panel_is_whole() -> None:
    lines = followed([DONE], terminal=True)[1].splitlines()
    frame = [line for line in lines if line.startswith(("│", "╭", "╰"))]
    assert len(frame) > 4
    assert all(len(line) == 120 and line[-1] in "│╮╯" for line in frame)


def test_markup_in_a_message_stays_text() -> None:
    state = replace(DONE, message="[red]not ours[/red] [/]")
    assert "[red]not ours[/red] [/]" in followed([state], terminal=False)[1]
    assert "[red]not ours[/red] [/]" in followed([state], terminal=True)[1]


def test_a_run_of_which_nothing_is_known_has_a_line_and_a_panel() -> None:
    unknown = RunSnapshot("tiny", "Pending")
    assert render_line(unknown) == "Pending"
    console = Console(file=StringIO(), width=80)
    console.print(render_panel(unknown, [], 0.0))


def test_sparks_span_the_values_and_stand_a_flat_line() -> None:
    assert sparkline([0.0, 1.0]) == "▁█"
    assert sparkline([0.5, 0.5]) == "▁▁"
    assert len(sparkline([0.1 * index for index in range(200)])) == 60
