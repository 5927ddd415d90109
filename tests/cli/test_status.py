"""The list of runs on a cluster, from objects as an API server has them."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from sweyard_cli.commands.status import line_of, table_of

RUNNING: dict[str, Any] = {
    "metadata": {"name": "tiny", "namespace": "team"},
    "spec": {},
    "status": {
        "phase": "Running",
        "step": 3,
        "totalSteps": 30,
        "estimatedRemainingSeconds": 125,
        "restarts": 1,
        "metrics": {"rewardMean": 0.5, "solvedFraction": 0.25, "eval/held": 0.125, "eval/held/pass@4": 0.5},
        "trainer": {"message": "step 4: training"},
        "conditions": [{"type": "ImagesReady", "status": "True", "reason": "Ready", "message": "all there"}],
    },
}


def failed(message: str) -> dict[str, Any]:
    conditions = [{"type": "Failed", "status": "True", "reason": "InvalidSpec", "message": message}]
    return {**RUNNING, "status": {"phase": "Failed", "conditions": conditions}}


def test_a_line_says_how_far_a_run_is_and_what_it_does() -> None:
    line = line_of(RUNNING)
    assert (line.namespace, line.name, line.phase, line.step, line.total_steps) == ("team", "tiny", "Running", 3, 30)
    assert (line.reward, line.solved, line.remaining_seconds, line.restarts) == (0.5, 0.25, 125, 1)
    assert line.held_out == {"held": 0.125, "held/pass@4": 0.5}
    assert line.reason == "step 4: training"


def test_a_stage_that_is_waited_for_is_the_reason() -> None:
    waiting = {
        "type": "SandboxesReady",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0 of 16: no CPU left",
    }
    status = {**RUNNING["status"], "conditions": [*RUNNING["status"]["conditions"], waiting]}
    assert line_of({**RUNNING, "status": status}).reason == "0 of 16: no CPU left"


def test_a_failure_is_the_reason() -> None:
    assert line_of(failed("spec.preset: there is no such preset")).reason == "spec.preset: there is no such preset"


@pytest.mark.parametrize(
    "status", [{"trainer": {"message": "step 1\x1b]0;x\x07"}}, failed("step 1\x1b]0;x\x07")["status"]]
)
def test_what_a_run_says_commands_no_terminal(status: dict[str, Any]) -> None:
    assert line_of({**RUNNING, "status": status}).reason == "step 1␛]0;x␇"


def test_a_run_that_the_operator_has_not_seen_is_pending() -> None:
    line = line_of({"metadata": {"name": "new", "namespace": "team"}, "spec": {}})
    assert (line.phase, line.step, line.reward, line.reason) == ("Pending", 0, None, "")


def test_the_table_has_a_row_a_run_and_no_markup_of_theirs() -> None:
    console = Console(file=StringIO(), width=200)
    console.print(table_of([line_of(RUNNING), line_of(failed("[bold]x[/bold]"))], 200))
    assert isinstance(console.file, StringIO)
    header, first, second = console.file.getvalue().splitlines()
    assert header.split() == [
        "namespace",
        "name",
        "phase",
        "step",
        "reward",
        "solved",
        "held-out",
        "left",
        "restarts",
        "reason",
    ]
    assert "3 of 30" in first
    assert "2 min 05 s" in first
    assert "[bold]x[/bold]" in second


def elsewhere(run: dict[str, Any]) -> dict[str, Any]:
    return {**run, "metadata": {"name": "other", "namespace": "another-team"}}


@pytest.mark.parametrize(
    ("runs", "columns"),
    [
        pytest.param([RUNNING], "name phase step solved left reason", id="one namespace"),
        pytest.param([RUNNING, elsewhere(RUNNING)], "namespace name phase step solved left reason", id="several"),
    ],
)
def test_a_narrow_terminal_shows_whole_what_is_asked_for_most(runs: list[dict[str, Any]], columns: str) -> None:
    console = Console(file=StringIO(), width=80)
    console.print(table_of([line_of(run) for run in runs], 80))
    assert isinstance(console.file, StringIO)
    told = console.file.getvalue()
    assert told.splitlines()[0].split() == columns.split()
    assert "…" not in told
    assert " ".join(told.split()).count("3 of 30 25.0% 2 min 05 s step 4: training") == len(runs)
