"""Directories and a cluster as one: whose files are whose, and where a trainer began anew."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli.conftest import step_row

from sweyard_cli.ui.cluster import ClusterView
from sweyard_cli.ui.directories import Directories
from sweyard_cli.ui.not_there import NotThereError
from sweyard_cli.ui.recent import Recent
from sweyard_cli.ui.sources import Sources
from sweyard_trainer.restarts import record_restart

MakeRun = Callable[..., Path]


class FakeCluster:
    """One run, with what a ClusterView says of it."""

    def __init__(self, name: str) -> None:
        self._line = {"where": "team", "name": name, "phase": "Running", "spark": [1.0]}

    def runs(self) -> list[dict[str, Any]]:
        return [self._line]

    def run(self, where: str, name: str) -> dict[str, Any]:
        return self._line

    def stamps(self) -> Mapping[str, object]:
        return {"run team/run": "7"}


def sources_of(make_run: MakeRun, name: str, namespace: str = "team") -> Sources:
    run = make_run(rows=[step_row(step, 0.5) for step in (1, 2)])
    record_restart(run, 1, datetime(2026, 1, 1, tzinfo=UTC))
    return Sources(Directories(run), cast(ClusterView, FakeCluster(name)), namespace)


def test_a_run_with_a_volume_is_one_run_and_its_restarts_have_steps(make_run: MakeRun) -> None:
    sources = sources_of(make_run, "run")
    [line] = sources.runs()
    assert (line["where"], line["spark"]) == ("team", [0.5, 0.5])
    assert sources.run("team", "run")["restart_steps"] == [1]
    assert sources.files("team", "run").rows()
    assert sources.stamps()["run team/run"] != ("7", None)


def test_a_volume_is_of_no_run_of_its_name_in_another_namespace(make_run: MakeRun) -> None:
    sources = sources_of(make_run, "run", namespace="other")
    assert [(line["where"], line["spark"]) for line in sources.runs()] == [("team", [1.0]), ("_", [0.5, 0.5])]
    assert sources.run("team", "run")["has_files"] is False
    with pytest.raises(NotThereError):
        sources.files("team", "run")
    assert sources.stamps()["run team/run"] == "7"


def test_a_run_without_a_volume_has_no_files_and_hides_none_of_this_machine(make_run: MakeRun) -> None:
    sources = sources_of(make_run, "other")
    assert [(line["where"], line["name"]) for line in sources.runs()] == [("team", "other"), ("_", "run")]
    assert sources.run("team", "other")["has_files"] is False
    assert [sources.run("_", "run")[name] for name in ("restarts", "restart_steps")] == [1, [1]]
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


def test_what_a_file_system_keeps_in_the_root_of_a_volume_is_no_run(tmp_path: Path) -> None:
    for name in ("lost+found", "tiny"):
        (tmp_path / name / "metrics").mkdir(parents=True)
    assert list(Directories(tmp_path).runs()) == ["tiny"]
