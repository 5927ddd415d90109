"""Variables of the recipes' own scripts."""

from pathlib import Path
from typing import Any

import pytest

from sweyard_api.problem import InvalidSpecError
from sweyard_api.variables import VARIABLES, with_variables

DJANGO, SWE_PDB = "qwen3-coder-30b-django", "swepdb-14b"
CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "an engine": (
        *(DJANGO, "VLLM_URL", "https://engine.example"),
        {"inference": {"placement": "external", "url": "https://engine.example"}},
    ),
    "a model": (DJANGO, "MODEL", "org/coder", {"model": {"name": "org/coder"}}),
    "steps": (DJANGO, "NUM_ROLLOUTS", "7", {"steps": 7}),
    "groups a step": (DJANGO, "ROLLOUT_BATCH_SIZE", "16", {"rollout": {"groupsPerStep": 16}}),
    "attempts a group": (DJANGO, "N_SAMPLES", "8", {"rollout": {"groupSize": 8}}),
    "a model's path": (SWE_PDB, "SWE_PDB_MODEL_PATH", "/models/sft", {"model": {"name": "/models/sft"}}),
    "a directory of checkpoints": (
        *(SWE_PDB, "SWE_PDB_CHECKPOINT_BASE", "/data/checkpoints"),
        {"checkpoint": {"url": "file:///data/checkpoints"}},
    ),
    "a directory of checkpoints from here": (
        *(SWE_PDB, "SWE_PDB_CHECKPOINT_BASE", "kept"),
        {"checkpoint": {"url": (Path.cwd() / "kept").as_uri()}},
    ),
    "a directory of checkpoints whose name has a blank": (
        *(SWE_PDB, "SWE_PDB_CHECKPOINT_BASE", "/data/my checkpoints"),
        {"checkpoint": {"url": "file:///data/my checkpoints"}},
    ),
    "a bucket of checkpoints": (
        *(SWE_PDB, "SWE_PDB_CHECKPOINT_BASE", "s3://bucket/runs"),
        {"checkpoint": {"url": "s3://bucket/runs"}},
    ),
}


@pytest.mark.parametrize(("preset", "name", "value", "expected"), CASES.values(), ids=CASES)
def test_a_variable_sets_its_field(preset: str, name: str, value: str, expected: dict[str, Any]) -> None:
    found = with_variables({"preset": preset}, {name: value})
    assert found.spec == {"preset": preset, **expected}
    assert found.output is None
    assert len(found.told) == 1
    assert found.told[0].startswith(f"{name} is set: ")


def test_the_output_directory_is_no_field() -> None:
    found = with_variables({"preset": DJANGO}, {"OUTPUT_DIR": "/data/out"})
    assert (found.spec, found.output) == ({"preset": DJANGO}, "/data/out")


def test_a_variable_counts_more_than_the_file_and_leaves_the_rest() -> None:
    spec = {"preset": DJANGO, "rollout": {"groupSize": 2, "temperature": 0.8}, "model": {"scratch": {"layers": 1}}}
    found = with_variables(spec, {"N_SAMPLES": "4", "MODEL": "org/coder"})
    assert found.spec["rollout"] == {"groupSize": 4, "temperature": 0.8}
    assert found.spec["model"] == {"name": "org/coder"}


@pytest.mark.parametrize("preset", ["tiny", "grpo", None])
def test_other_runs_read_no_variables(preset: str | None) -> None:
    names = {variable.name: "7" for variables in VARIABLES.values() for variable in variables}
    spec = {"preset": preset} if preset else {}
    assert with_variables(spec, names).spec == spec


def test_an_empty_variable_is_as_unset() -> None:
    assert with_variables({"preset": DJANGO}, {"MODEL": "", "NUM_ROLLOUTS": ""}).told == ()


def test_what_is_no_number_is_told_by_the_variables_name() -> None:
    with pytest.raises(InvalidSpecError, match="groupSize is 'two': is set by the variable N_SAMPLES"):
        with_variables({"preset": DJANGO}, {"N_SAMPLES": "two"})
