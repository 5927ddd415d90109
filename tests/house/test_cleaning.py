"""`make clean-cache` removes what was cached, and nothing that is still in use."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def make(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    shutil.copy(CHECKOUT / "Makefile", folder)
    command = ["make", *arguments, f"CACHE={folder / 'cache'}"]
    # What the make that runs the tests hands on is not for this one.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    }
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    module = tmp_path / "cache" / "go-mod" / "some"
    module.mkdir(parents=True)
    (module / "file.go").write_text("package some\n")
    return tmp_path / "cache"


def test_the_cache_and_the_environment_go(tmp_path: Path, cache: Path) -> None:
    (tmp_path / ".venv").mkdir()
    done = make(tmp_path, "clean-cache")
    assert (done.returncode, done.stderr) == (0, "")
    assert not cache.exists()
    assert not (tmp_path / ".venv").exists()


def test_a_cache_that_a_cluster_uses_stays(tmp_path: Path, cache: Path) -> None:
    (cache / "clusters" / "demo").mkdir(parents=True)
    (cache / "clusters" / "demo" / "cluster.json").write_text(json.dumps({}))
    done = make(tmp_path, "clean-cache")
    assert done.returncode != 0
    assert "make clean-cluster first" in done.stdout
    assert cache.exists()


def test_the_list_of_targets_holds_no_variable(tmp_path: Path) -> None:
    assert "$(" not in make(tmp_path, "help").stdout
