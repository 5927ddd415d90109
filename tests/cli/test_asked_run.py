"""`sweyard run` of a recipe: phases, and the variables of its own script."""

from pathlib import Path
from typing import Any

import pytest

from sweyard_cli.asked_run import ask
from sweyard_cli.errors import UserError

FILE = Path("recipe.yaml")


def document(preset: str) -> dict[str, Any]:
    return {
        "apiVersion": "sweyard.dev/v1alpha1",
        "kind": "TrainingRun",
        "metadata": {"name": "recipe"},
        "spec": {"preset": preset},
    }


def test_a_file_that_nothing_changes_is_run_as_it_is(tmp_path: Path) -> None:
    asked = ask(document("deepswe-32b"), FILE, None, {"MODEL": "other"})
    assert asked.document == document("deepswe-32b")
    assert (asked.kept(tmp_path), asked.output, asked.told) == (FILE, Path("runs/recipe"), ())
    assert asked.handed_over is None


def test_a_phase_is_a_run_of_its_own_that_the_trainer_keeps(tmp_path: Path) -> None:
    asked = ask(document("qwen3-8b-minimal"), FILE, "few", {})
    assert asked.output == Path("runs/recipe-few")
    assert asked.kept(tmp_path) == tmp_path / "trainingrun.yaml"
    given = asked.handed_over
    assert given is not None
    assert (given["metadata"]["name"], given["spec"]["tasks"]["train"]["limit"]) == ("recipe-few", 8)


def test_variables_are_told_and_name_the_directory() -> None:
    variables = {"OUTPUT_DIR": "/data/out", "N_SAMPLES": "4", "HOME": "/root"}
    asked = ask(document("qwen3-coder-30b-django"), FILE, None, variables)
    assert asked.output == Path("/data/out")
    assert asked.document["spec"]["rollout"] == {"groupSize": 4}
    assert asked.told == ("N_SAMPLES is set: rollout.groupSize is 4", "OUTPUT_DIR is set: output is /data/out")


@pytest.mark.parametrize(
    ("phase", "variables", "says"),
    [
        ("two", {}, "recipe.yaml: preset is 'qwen3-coder-30b-django': has no phase"),
        (None, {"N_SAMPLES": "many"}, "recipe.yaml: rollout.groupSize is 'many': is set by the variable N_SAMPLES"),
        (None, {"N_SAMPLES": "1"}, "(N_SAMPLES is set: rollout.groupSize is 1)"),
        (None, {"OUTPUT_DIR": __file__}, f"OUTPUT_DIR {__file__} is a file"),
        (None, {"VLLM_URL": "engine"}, "must begin with http:// or https:// (VLLM_URL is set"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(phase: str | None, variables: dict[str, str], says: str) -> None:
    with pytest.raises(UserError) as refusal:
        ask(document("qwen3-coder-30b-django"), FILE, phase, variables)
    assert says in str(refusal.value)


def test_the_help_of_run_tells_of_both(sweyard: Any) -> None:
    told = " ".join(sweyard("run", "--help").stdout.replace("│", " ").split())
    for word in ("--phase", "VLLM_URL", "N_SAMPLES", "OUTPUT_DIR", "SWE_PDB_MODEL_PATH", "SWE_PDB_CHECKPOINT_BASE"):
        assert word in told
