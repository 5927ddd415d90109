"""What `sweyard tasks push` takes for a data set, and what it calls it."""

from pathlib import Path
from typing import Any

import pytest

from sweyard_cli.commands.tasks import find_given, own_name
from sweyard_sandbox.tasks.tasks_file import TASKS_FILE


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWEYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "cache" / "datasets" / "made", tmp_path / "here"):
        folder.mkdir(parents=True)
        (folder / TASKS_FILE).touch()
    (tmp_path / "rows.v2.jsonl").touch()
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("given", "name"), [("made", "made"), ("here", "here"), (f"./here/{TASKS_FILE}", "here"), ("rows.v2.jsonl", "rows")]
)
def test_a_data_set_is_found_by_plain_name_or_path_and_has_a_name_of_its_own(given: str, name: str) -> None:
    path = find_given(given)
    assert path.exists()
    assert own_name(path) == name


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "dataset 'nowhere' is not in "),
        (("./nowhere",), "dataset './nowhere': no such file or folder"),
        (("",), "a path is empty"),
        (("Upper",), "DATASET, and so its --name, is 'Upper': a name on a cluster has lower-case letters"),
    ],
)
def test_what_cannot_be_pushed_is_refused_before_a_cluster_is_asked(
    sweyard: Any, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "Upper").mkdir()
    refused = sweyard("tasks", "push", *arguments)
    assert refused.exit_code == 2
    assert sentence in refused.stderr
