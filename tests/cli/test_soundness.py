"""What of a run's figures is out of bounds, and where that is told."""

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from starlette.testclient import TestClient
from tests.cli.conftest import evaluation_row, step_row
from tests.shell_blocks import DOCS

from sweyard_cli.ending import show_ending
from sweyard_cli.report.markdown import render_markdown
from sweyard_cli.report.page import render_page
from sweyard_cli.results.run_results import read_results
from sweyard_cli.results.soundness import BOUNDS, findings_of
from sweyard_cli.ui.app import make_app
from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.sources import Sources

MakeRun = Callable[..., Path]
KL, FRESH_KL = "train/engine_kl", "train/fresh_engine_kl"
LOST = "rollout/infra_failure_fraction"


def rows_of(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**step_row(step, 0.5), **figures} for step, figures in enumerate(steps, 1)]


def groups(trained: float, with_signal: float, dropped: float) -> dict[str, float]:
    return {
        "rollout/groups": trained,
        "rollout/groups_with_signal": with_signal,
        "rollout/groups_dropped": dropped,
    }


TOLD = {
    "nothing": ([], []),
    "the bound itself": ([{KL: 0.01, LOST: 0.05}], []),
    "the last step alone": ([{KL: 0.001}, {KL: 0.03}], ["KL between engine and trainer 0.03, above 0.01 in step 2"]),
    "since it is so": (
        [{LOST: 0.4}, {LOST: 0.0}, {LOST: 0.25}, {}, {LOST: 0.5}],
        ["Attempts lost to infrastructure 50 %, above 5 % since step 3"],
    ),
    "what is over is none": ([{KL: 0.5}, {KL: 0.001}], []),
    "age of tokens is none": ([{KL: 0.2, FRESH_KL: 0.002}], []),
    "fresh tokens": ([{KL: 0.2, FRESH_KL: 0.02}], ["KL between engine and trainer 0.02, above 0.01 in step 1"]),
    "no number": ([{KL: float("nan")}], ["KL between engine and trainer nan, above 0.01 in step 1"]),
    "damaged": ([{KL: "x", **groups(0, 0, 0)}], []),
    "signal, of what was dropped for lack of it, too": (
        [groups(trained=8, with_signal=8, dropped=56)],
        ["Groups with signal 12.5 %, below 20 % in step 1"],
    ),
    "enough signal": ([groups(trained=8, with_signal=2, dropped=2)], []),
    "two": (
        [{"train/clip_fraction": 0.3, "rollout/truncated_fraction": 0.6}],
        ["Clip fraction 30 %, above 20 % in step 1", "Attempts out of tokens 60 %, above 30 % in step 1"],
    ),
}


@pytest.mark.parametrize(("steps", "told"), TOLD.values(), ids=TOLD)
def test_what_is_out_of_bounds_is_told_with_since_when(steps: list[dict[str, Any]], told: list[str]) -> None:
    rows = [{"phase": "warmup", "step": 9, KL: 9.0}, *rows_of(*steps), evaluation_row(2, 0.5)]
    assert [finding.told for finding in findings_of(rows)] == told


def test_the_page_both_reports_and_the_end_of_a_run_tell_it(make_run: MakeRun) -> None:
    run = make_run(rows=rows_of({LOST: 0.5}))
    sources = Sources(Directories(run.parent))
    client = TestClient(make_app(sources, None))
    [line] = client.get("/api/runs").json()
    assert [finding["figure"] for finding in line["findings"]] == [LOST]
    assert client.get("/api/runs/_/run").json()["findings"] == line["findings"]
    assert client.get("/api/runs/_/run/figures").json()["bounds"][LOST] == 0.05
    results = read_results(run)
    console = Console(file=StringIO(), width=80)
    show_ending(run, console, [])
    assert isinstance(console.file, StringIO)
    for report in (render_page(results), render_markdown(results, "curve.png"), console.file.getvalue()):
        assert "Attempts lost to infrastructure 50 %, above 5 % in step 1" in report


def test_the_documented_bounds_are_those_that_are_looked_for() -> None:
    table = re.findall(r"^\| `(\w+/\w+)`.*?\| (up to|from) ([\d.]+)", (DOCS / "gpu-run.md").read_text(), re.MULTILINE)
    known = [(bound.figure, "from" if bound.is_least else "up to", bound.limit) for bound in BOUNDS]
    assert [(figure, side, float(limit)) for figure, side, limit in table] == known
