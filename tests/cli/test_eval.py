"""`sweyard eval`: what is run, and what is refused before anything is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.resolve import resolve
from sweyard_cli.commands.eval import evaluation_of, find_model, next_command
from sweyard_cli.errors import UserError


@pytest.fixture
def document(run_file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(run_file.read_text())
    return loaded


def test_the_file_s_run_is_evaluated_with_the_model_that_was_named(document: dict[str, Any], tmp_path: Path) -> None:
    changed = evaluation_of(document, Path("run.yaml"), attempts=4, model=tmp_path)
    spec = resolve(changed["spec"])
    assert (spec.mode, spec.evaluation.attempts, spec.model.name, spec.model.scratch) == (
        "eval",
        4,
        str(tmp_path),
        None,
    )
    assert "mode" not in document["spec"], "the user's own document stays as it is"


def test_without_options_the_file_decides(document: dict[str, Any]) -> None:
    document["spec"]["evaluation"] = {"attempts": 2, "temperature": 0.5}
    spec = resolve(evaluation_of(document, Path("run.yaml"), attempts=None, model=None)["spec"])
    assert (spec.evaluation.attempts, spec.evaluation.temperature) == (2, 0.5)
    assert spec.model.scratch is not None


@pytest.mark.parametrize(
    ("changes", "attempts", "says"),
    [
        pytest.param({"tasks": {"train": {"dataset": "tiny"}}}, None, "tasks.eval", id="nothing held out"),
        pytest.param({"evaluation": {"temperature": 0}}, 4, "are the same one", id="greedy attempts"),
    ],
)
def test_what_cannot_be_evaluated_is_said_with_the_file(
    document: dict[str, Any], changes: dict[str, Any], attempts: int | None, says: str
) -> None:
    document["spec"] |= changes
    with pytest.raises(UserError, match=rf"run\.yaml: .*{says}"):
        evaluation_of(document, Path("run.yaml"), attempts=attempts, model=None)


def test_a_model_in_hugging_face_format_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    assert find_model(tmp_path, tmp_path / "exported") == tmp_path


@pytest.mark.parametrize(
    ("files", "says"),
    [
        pytest.param(["adapter_config.json"], "holds an adapter alone", id="an adapter"),
        pytest.param(["notes.txt"], "has neither config.json nor config.yaml; name the directory", id="something else"),
        pytest.param([], "or of a model in Hugging Face format", id="nothing"),
    ],
)
def test_weights_that_are_none_are_refused(tmp_path: Path, files: list[str], says: str) -> None:
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=says):
        find_model(tmp_path, tmp_path / "exported")


def test_weights_that_are_not_there_are_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none: there is no such directory; .* Hugging Face format"):
        find_model(tmp_path / "none", tmp_path / "exported")


def test_weights_that_the_command_was_given_are_looked_for_before_anything_runs(
    sweyard: Callable[..., Any], run_file: Path, tmp_path: Path
) -> None:
    result = sweyard("eval", "-f", run_file, "--weights", tmp_path / "gone", "--output", tmp_path / "out")
    assert (result.exit_code, f"--weights {tmp_path}/gone: there is no such directory" in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()


FILES = {
    "as an argument": ([], "No such file"),
    "as an option": (["-f"], "No such file"),
    "in both ways": (["-f", "other.yaml"], "are two files: give one"),
}


@pytest.mark.parametrize(("before", "says"), FILES.values(), ids=FILES)
def test_the_file_is_given_in_one_of_two_ways(sweyard: Callable[..., Any], before: list[str], says: str) -> None:
    result = sweyard("eval", *before, "none.yaml")
    assert (result.exit_code, says in result.stderr) == (2, True)


def test_without_a_file_the_option_is_named(sweyard: Callable[..., Any]) -> None:
    result = sweyard("eval")
    assert (result.exit_code, "--file FILE" in result.stderr) == (2, True)


def test_weights_of_a_run_are_taken_once_and_newer_ones_are_another_model(tmp_path: Path, make_run: Any) -> None:
    run = make_run()
    for version in (1, 2):
        (run / "weights" / str(version)).mkdir(parents=True)
        (run / "weights" / str(version) / "COMPLETE").touch()
        (run / "weights" / str(version) / "of").write_text(str(version))
    (run / "model").mkdir()
    found = find_model(run, tmp_path / "exports")
    assert (found / "of").read_text() == "2"
    (found / "mark").touch()
    assert (find_model(run, tmp_path / "exports") / "mark").exists()
    (run / "weights" / "2" / "COMPLETE").unlink()
    assert (find_model(run, tmp_path / "exports") / "of").read_text() == "1"


@pytest.mark.parametrize(("attempts", "says"), [(1, "--weights w --attempts 8"), (8, "rollouts list out")])
def test_what_to_do_next_depends_on_what_was_done(attempts: int, says: str) -> None:
    assert says in next_command(Path("run.yaml"), Path("w"), Path("out"), attempts)[0]


def test_export_refuses_two_choices_and_a_directory_that_is_there(
    sweyard: Callable[..., Any], make_run: Callable[..., Path], tmp_path: Path
) -> None:
    run = make_run()
    result = sweyard("export", run, "--to", tmp_path / "to", "--best", "--step", 2)
    assert (result.exit_code, "choose different weights" in result.stderr) == (2, True)
    result = sweyard("export", run, "--to", tmp_path)
    assert (result.exit_code, "nothing is overwritten" in result.stderr) == (2, True)
    result = sweyard("export", run, "--to", tmp_path / "to")
    assert (result.exit_code, "holds neither a checkpoint nor weights" in result.stderr) == (2, True)
    assert not (tmp_path / "to").exists()


def test_a_run_that_learns_from_recordings_is_evaluated_without_them(tmp_path: Path) -> None:
    spec = {"mode": "sft", "sft": {"datasets": ["chats.jsonl"]}, "tasks": {"eval": [{"dataset": "tiny"}]}}
    document = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": "x"}, "spec": spec}
    changed = evaluation_of(document, Path("run.yaml"), attempts=None, model=tmp_path)["spec"]
    assert changed["mode"] == "eval"
    assert "sft" not in changed
