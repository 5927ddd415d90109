"""Directories and a cluster as one: whose files are whose, and where a trainer began anew."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli.conftest import step_row

from sweyard_cli.ui.cluster import ClusterView
from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.not_there import NotThereError
from sweyard_cli.ui.recent import Recent
from sweyard_cli.ui.sources import Sources

MakeRun = Callable[..., Path]


class FakeCluster:
    """One run, with what a ClusterView says of it."""

    def __init__(self, name: str, begun_at: list[str]) -> None:
        self._line = {"where": "team", "name": name, "phase": "Running", "spark": [1.0], "begun_at": begun_at}

    def runs(self) -> list[dict[str, Any]]:
        return [self._line]

    def run(self, where: str, name: str) -> dict[str, Any]:
        return self._line

    def stamps(self) -> Mapping[str, object]:
        return {"run team/run": "7"}


def sources_of(make_run: MakeRun, name: str, begun_at: list[str]) -> Sources:
    times = ["2026-01-01T10:00:00.000+00:00", "2026-01-01T11:00:00.000+00:00"]
    rows = [{**step_row(step, 0.5), "time": time} for step, time in enumerate(times, 1)]
    return Sources(Directories(make_run(rows=rows)), cast(ClusterView, FakeCluster(name, begun_at)))


def test_a_run_with_a_volume_is_one_run_and_its_restarts_have_steps(make_run: MakeRun) -> None:
    sources = sources_of(make_run, "run", ["2026-01-01T09:00:00+00:00", "2026-01-01T10:30:00+00:00"])
    [line] = sources.runs()
    assert (line["where"], line["spark"]) == ("team", [0.5, 0.5])
    assert sources.run("team", "run")["restart_steps"] == [1]
    assert sources.files("team", "run").rows()
    assert sources.stamps()["run team/run"] != ("7", None)


def test_a_run_without_a_volume_has_no_files_and_hides_none_of_this_machine(make_run: MakeRun) -> None:
    sources = sources_of(make_run, "other", [])
    assert [(line["where"], line["name"]) for line in sources.runs()] == [("team", "other"), ("_", "run")]
    assert sources.run("team", "other")["has_files"] is False
    with pytest.raises(NotThereError, match="its volume is not mounted"):
        sources.files("team", "other")


def test_an_answer_is_asked_for_again_once_it_is_old_and_a_failure_at_once() -> None:
    now, asked = [0.0], iter([ValueError("away"), "first", "second"])

    def read() -> str:
        answer = next(asked)
        if isinstance(answer, Exception):
            raise answer
        return answer

    recent = Recent(read, seconds=2.0, clock=lambda: now[0])
    with pytest.raises(ValueError, match="away"):
        recent()
    assert (recent(), recent()) == ("first", "first")
    now[0] = 2.0
    assert recent() == "second"
