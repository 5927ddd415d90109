"""What is offered after a run on this machine to whoever has a cluster."""

from pathlib import Path
from typing import Any

import pytest

from sweyard_api.resolve import resolve
from sweyard_cli.local.cluster_next import cluster_commands

TRAIN: dict[str, Any] = {"dataset": "mine", "split": "train"}
HELD_OUT: dict[str, Any] = {"dataset": "mine", "split": "heldout"}
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "one of ours, named twice": ({"tasks": {"train": TRAIN, "eval": [HELD_OUT]}}, ["mine"]),
    "two": ({"tasks": {"train": TRAIN, "eval": [{"dataset": "other"}]}}, ["mine", "other"]),
    "that of the warm-up": (
        {"tasks": {"train": {"dataset": "someone/set"}}, "warmup": {"steps": 1, "tasks": {"dataset": "other"}}},
        ["other"],
    ),
    "a hub's, which pods fetch": ({"tasks": {"train": {"dataset": "someone/set"}}}, []),
    "one that is not here": ({"tasks": {"train": {"dataset": "elsewhere"}}}, []),
}


@pytest.mark.parametrize(("spec", "pushed"), CASES.values(), ids=CASES)
def test_data_sets_of_this_machine_are_pushed_before_the_file_is_applied(
    tmp_path: Path, spec: dict[str, Any], pushed: list[str]
) -> None:
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tasks.jsonl.gz").touch()
    commands = cluster_commands(Path("run.yaml"), resolve({"preset": "tiny", **spec}), [tmp_path / "none", tmp_path])
    pushes, last = [command for command, _ in commands[:-1]], commands[-1][0]
    ends = [f"tasks push {tmp_path / name} --name {name} --images images.json" for name in pushed]
    assert all(push.endswith(end) for push, end in zip(pushes, ends, strict=True))
    assert last.endswith("run -f run.yaml --cluster")
