"""`sweyard run` on the directory of a run that has ended."""

import fcntl
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweyard_cli.errors import UserError
from sweyard_cli.local.finished import free_neighbour, is_finished
from sweyard_cli.local.lock import LOCK_FILE, is_locked, lock


def test_a_finished_run_is_told_with_its_figures_and_starts_nothing(
    sweyard: Callable[..., Any], make_run: Callable[..., Path], run_file: Path
) -> None:
    directory = make_run()
    result = sweyard("run", "-f", run_file, "--output", directory)
    told = "".join(result.stdout.split())
    assert result.exit_code == 0
    assert "already finished" in result.stdout
    assert "50 %" in result.stdout
    assert f"run-f{run_file}--output{directory}-2#beginanew" in told
    assert not (directory / "run.log").exists()


def document_of(run_file: Path, **spec: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run_file.read_text())
    document["spec"] |= spec
    return document


@pytest.mark.parametrize(
    ("phase", "changes", "finished"),
    [("finished", {}, True), ("rl", {}, False), ("finished", {"seed": 99}, False)],
    ids=["this run at its end", "under way", "a run of another config"],
)
def test_only_the_same_run_at_its_end_is_finished(
    make_run: Callable[..., Path], run_file: Path, phase: str, changes: dict[str, Any], finished: bool
) -> None:
    directory = make_run(progress={"phase": phase})
    assert is_finished(document_of(run_file, **changes), directory) is finished


def test_a_run_that_a_process_still_ends_is_not_finished(make_run: Callable[..., Path], run_file: Path) -> None:
    directory = make_run()
    with lock(directory):
        assert not is_finished(document_of(run_file), directory)


def test_who_looks_keeps_no_run_from_beginning(tmp_path: Path) -> None:
    lock(tmp_path).close()
    looking = (tmp_path / LOCK_FILE).open("rb")
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.05, looking.close).start()
    with lock(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(UserError, match="another process is at work"):
            lock(tmp_path)
    assert not is_locked(tmp_path)


def test_a_directory_that_is_not_there_holds_no_finished_run(tmp_path: Path, run_file: Path) -> None:
    assert not is_finished(document_of(run_file), tmp_path / "none")


def test_a_new_run_is_offered_a_directory_that_is_free(tmp_path: Path) -> None:
    (tmp_path / "tiny-2").mkdir()
    assert free_neighbour(tmp_path / "tiny") == tmp_path / "tiny-3"


def test_a_run_in_the_working_directory_is_offered_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert free_neighbour(Path()) == tmp_path.with_name(f"{tmp_path.name}-2")


def test_a_run_whose_config_is_no_text_is_another_one(make_run: Callable[..., Path], run_file: Path) -> None:
    directory = make_run()
    (directory / "config.yaml").write_bytes(b"\xff\xfe")
    assert not is_finished(document_of(run_file), directory)


def test_a_run_is_gone_on_with_by_its_directory_alone(
    sweyard: Callable[..., Any], make_run: Callable[..., Path], run_file: Path
) -> None:
    directory = make_run()
    without = sweyard("resume", "--output", directory)
    assert (without.exit_code, f"--output {directory}" in without.stderr) == (2, True)
    run_file.rename(directory / "trainingrun.yaml")
    assert "already finished" in sweyard("resume", "--output", directory).stdout


CHANGED = {
    "an evaluation": (["eval", "--attempts", "4"], {}),
    "variables": (["run"], {"NUM_ROLLOUTS": "7"}),
}


@pytest.mark.parametrize(("command", "variables"), CHANGED.values(), ids=CHANGED)
def test_a_directory_of_another_run_keeps_the_file_by_which_that_goes_on(
    sweyard: Callable[..., Any],
    make_run: Callable[..., Path],
    run_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    variables: dict[str, str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
        run_file.write_text(json.dumps(document_of(run_file, preset="qwen3-coder-30b-django")))
    directory = make_run(progress={"phase": "rl", "step": 1})
    (directory / "trainingrun.yaml").write_text("that of the run")
    result = sweyard(*command, "-f", run_file, "--output", directory)
    assert (result.exit_code, "holds a run with another config" in " ".join(result.stdout.split())) == (2, True)
    assert (directory / "trainingrun.yaml").read_text() == "that of the run"
