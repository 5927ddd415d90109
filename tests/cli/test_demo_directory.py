"""The demo is safe to repeat."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sweyard_cli.demo.output import Claim
from sweyard_cli.errors import UserError
from sweyard_cli.local.lock import LOCK_FILE, is_locked, lock

NOW = datetime(2026, 5, 4, 3, 2, 1)


def earlier_demo(output: Path) -> Path:
    output.mkdir()
    (output / "summary.json").write_text("{}")
    return output


def test_an_earlier_demo_is_kept_under_another_name(tmp_path: Path) -> None:
    output = earlier_demo(tmp_path / "tiny")
    with Claim(output) as claim:
        assert claim.set_aside(NOW) == tmp_path / "tiny-20260504-030201"
        assert [path.name for path in output.iterdir()] == [LOCK_FILE]
        assert is_locked(output)
    assert (tmp_path / "tiny-20260504-030201" / "summary.json").exists()
    assert not is_locked(output)


def test_the_first_demo_sets_nothing_aside(tmp_path: Path) -> None:
    with Claim(tmp_path / "runs" / "tiny") as claim:
        assert claim.set_aside(NOW) is None


def test_a_demo_that_cannot_begin_renames_nothing(tmp_path: Path) -> None:
    output = earlier_demo(tmp_path / "tiny")
    with pytest.raises(UserError, match="bound to fail"), Claim(output):
        raise UserError("bound to fail")
    assert list(tmp_path.iterdir()) == [output]
    assert (output / "summary.json").exists()


@pytest.mark.parametrize("options", [[], ["--cluster", "kind"]], ids=["here", "on a cluster"])
def test_a_directory_of_something_else_is_neither_renamed_nor_written_into(
    sweyard: Callable[..., Any], run_file: Path, tmp_path: Path, options: list[str]
) -> None:
    output = tmp_path / "work"
    output.mkdir()
    (output / "thesis.tex").touch()
    result = sweyard("demo", "-f", run_file, "--output", output, *options)
    assert result.exit_code == 2
    assert [path.name for path in output.iterdir()] == ["thesis.tex"]
    assert list(tmp_path.glob("work*")) == [output]


@pytest.mark.parametrize("found", [[], ["thesis.tex"], ["config.yaml"]], ids=["empty", "work", "a run"])
def test_the_working_directory_is_not_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in found:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match="is the working directory or holds what is no run's"):
        Claim(Path())
    assert [path.name for path in tmp_path.iterdir()] == found


@pytest.mark.parametrize("begun", [False, True], ids=["made ready", "running"])
def test_a_demo_that_is_running_is_left_alone(tmp_path: Path, begun: bool) -> None:
    """Wherever it runs: on a cluster there is no process here but the demo itself."""
    output = earlier_demo(tmp_path / "tiny")
    with Claim(output) as claim:
        if begun:
            claim.set_aside(NOW)
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(UserError, match="a demo is running"):
            Claim(output)
        assert sorted(tmp_path.rglob("*")) == before


def test_a_run_of_this_machine_is_left_alone(sweyard: Callable[..., Any], run_file: Path, tmp_path: Path) -> None:
    output = earlier_demo(tmp_path / "tiny")
    with lock(output):
        result = sweyard("demo", "-f", run_file, "--output", output)
    assert result.exit_code == 2
    assert "a demo is running" in result.stderr
    assert list(tmp_path.glob("tiny*")) == [output]


def test_a_choice_that_cannot_work_is_refused_before_anything_is_moved(
    sweyard: Callable[..., Any], run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    output = tmp_path / "tiny"
    output.mkdir()
    result = sweyard("demo", "--cluster", "existing", "-f", run_file, "--output", output)  # no registry
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert list(tmp_path.glob("tiny*")) == [output]


def test_a_choice_that_is_none_is_told_with_those_there_are(sweyard: Callable[..., Any]) -> None:
    result = sweyard("demo", "--cluster", "minikube")
    assert result.exit_code == 2
    for choice in ("none", "native", "kind", "existing"):
        assert choice in result.stderr
