"""Rows that an older version, a damaged disk or another program left, before every reader of a run's directory.

Each reader answers, or says in a sentence which file is damaged; what one row lacks hides nothing of the others.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from starlette.testclient import TestClient
from tests.cli.conftest import PROGRESS, evaluation_row, step_row

from sweyard_cli.ending import show_ending
from sweyard_cli.errors import UserError
from sweyard_cli.report.markdown import render_markdown
from sweyard_cli.report.write import write_report
from sweyard_cli.results.run_results import read_results
from sweyard_cli.ui.app import make_app
from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.sources import Sources
from sweyard_cli.view.live import render_line, render_panel
from sweyard_cli.view.local_source import LocalRunSource

MakeRun = Callable[..., Path]
METRICS, RESTARTS = "metrics/metrics.jsonl", "metrics/restarts.jsonl"
EVALUATION = evaluation_row(2, 0.5)
REPORT = {"source": "h", "attempts": 4, "solved": 1, "solved_fraction": 0.25, "low": 0.1, "high": 0.5}
HUGE = 10**400
NAN, INFINITY = float("nan"), float("inf")


def lacking(figure: str) -> dict[str, Any]:
    return {name: value for name, value in EVALUATION.items() if not name.endswith(f"/{figure}")}


def evaluated(**figures: Any) -> dict[str, Any]:
    return {**EVALUATION, **{f"eval/heldout/{name}": value for name, value in figures.items()}}


def trained(figure: str, value: object) -> dict[str, Any]:
    groups = {f"rollout/{name}": 1 for name in ("groups", "groups_with_signal")}
    return {**step_row(3, 0.5), **groups, "rollout/groups_dropped": 0, figure: value}


def summed(**report: Any) -> dict[str, Any]:
    return {"run": "tiny", "steps": 2, "evaluations": {"final": [{**REPORT, **report}]}}


ANSWERED: dict[str, tuple[str, Any]] = {
    "an evaluation of before failures were counted": (METRICS, lacking("infra_failures")),
    "an interval that ends at its share, but for rounding": (METRICS, evaluated(low=0.5 + 1e-12, high=0.5 - 1e-12)),
    "a step that is no number": (METRICS, {**step_row(3, 0.5), "step": "3"}),
    "a step beyond all numbers": (METRICS, {**step_row(3, 0.5), "step": HUGE}),
    "an evaluation without a step": (METRICS, {**EVALUATION, "step": None}),
    "a phase that is a list": (METRICS, {**step_row(3, 0.5), "phase": ["rl"]}),
    "half of a pair in a name": (METRICS, trained("train/\ud800", 1)),
    "restarts at no step": (RESTARTS, {"step": "x"}),
    "restarts beyond all numbers": (RESTARTS, {"step": HUGE}),
    "a summary of before failures were counted": ("summary.json", summed()),
    "no version of weights yet": ("progress.json", {**PROGRESS, "weightVersion": None}),
    "a phase of another version": ("progress.json", {**PROGRESS, "phase": ["new"]}),
    "a metric beyond all numbers": ("progress.json", {**PROGRESS, "metrics": {"rewardMean": HUGE}}),
    **{
        f"{figure} is {value!r:.5}": (METRICS, trained(figure, value))
        for figure in ("rollout/reward_mean", "train/engine_kl", "rollout/groups")
        for value in ("x", None, [1], NAN, -INFINITY, 1e308, HUGE, True)
    },
}
TOLD: dict[str, tuple[str, Any]] = {
    "an evaluation of nothing": (METRICS, lacking("attempts")),
    "a share beside its interval": (METRICS, evaluated(low=0.6)),
    "an interval beyond all shares": (METRICS, evaluated(high=1e308)),
    "an endless interval": (METRICS, evaluated(high=INFINITY)),
    "a share that is none": (METRICS, evaluated(solved_fraction=NAN)),
    "attempts beyond all numbers": (METRICS, evaluated(attempts=HUGE)),
    "attempts that are a list": (METRICS, evaluated(attempts=[4])),
    "failures that are words": (METRICS, evaluated(infra_failures="none")),
    "a summary whose share is words": ("summary.json", summed(solved_fraction="1")),
    "a summary with a list of tasks set aside": ("summary.json", summed(set_aside=["t"])),
    "a summary that took no time that is a number": ("summary.json", {**summed(), "seconds": {"step": NAN}}),
    "a metric that is words": ("progress.json", {**PROGRESS, "metrics": {"rewardMean": "high"}}),
    "a step in words": ("progress.json", {**PROGRESS, "step": "2"}),
    "steps beyond all numbers": ("progress.json", {**PROGRESS, "totalSteps": HUGE}),
}


def read_by_all(run: Path) -> None:
    """Raises UserError."""
    write_report(run)
    render_markdown(read_results(run), "curve.png")
    show_ending(run, Console(quiet=True), [])
    snapshot = LocalRunSource("tiny", run).snapshot()
    render_line(snapshot)
    render_panel(snapshot, [], 0.0)


def page_of(run: Path) -> Mapping[str, tuple[int, Any]]:
    """Status and answer of each address that reads rows."""
    client = TestClient(make_app(Sources(Directories(run)), None))
    answers = {path: client.get(f"/api/runs{path}") for path in ("", "/_/run", "/_/run/figures")}
    return {path: (answer.status_code, answer.json()) for path, answer in answers.items()}


def leave(run: Path, name: str, row: Any) -> None:
    with (run / name).open("a" if name.endswith("l") else "w") as file:
        file.write(json.dumps(row) + "\n")


@pytest.mark.parametrize(("name", "row"), ANSWERED.values(), ids=ANSWERED)
def test_every_reader_tells_what_there_is_beside_it(make_run: MakeRun, name: str, row: Any) -> None:
    run = make_run()
    leave(run, name, row)
    read_by_all(run)
    assert (1, 0.25) in read_results(run).series("rollout/reward_mean")
    assert [status for status, _ in page_of(run).values()] == [200] * 3


@pytest.mark.parametrize(("name", "row"), TOLD.values(), ids=TOLD)
def test_every_reader_names_the_file_that_is_damaged(make_run: MakeRun, name: str, row: Any) -> None:
    run = make_run()
    leave(run, name, row)
    with pytest.raises(UserError, match=rf"{name} holds no [\w ]+: it is damaged, or another program's"):
        read_by_all(run)
    for status, answer in page_of(run).values():
        assert status == 200 or f"{name} holds no" in answer["error"]
