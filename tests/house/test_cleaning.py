"""What make removes, and what it makes only once: nothing that is in use is cleared."""

import fcntl
import json
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def start_make(
    folder: Path, *arguments: str, cache: str | None = None, without: tuple[str, ...] = ()
) -> "subprocess.Popen[str]":
    shutil.copy(CHECKOUT / "Makefile", folder)
    command = ["make", *arguments, *([] if without else [f"CACHE={cache or folder / 'cache'}"])]
    # What the make that runs the tests hands on is not for this one.
    unset = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", *without)
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)


def make(
    folder: Path, *arguments: str, cache: str | None = None, without: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    started = start_make(folder, *arguments, cache=cache, without=without)
    stdout, stderr = started.communicate()
    return subprocess.CompletedProcess(started.args, started.returncode, stdout, stderr)


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


@pytest.mark.parametrize("end", ["", "/"])
def test_a_cache_that_holds_the_checkout_stays(tmp_path: Path, end: str) -> None:
    checkout = tmp_path / "src" / "sweyard"
    checkout.mkdir(parents=True)
    done = make(checkout, "clean-cache", cache=f"{tmp_path}{end}")
    assert done.returncode != 0
    assert "holds more than the cache" in done.stdout
    assert checkout.exists()


def test_an_environment_that_is_linked_is_another_checkouts_and_is_not_cleared(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    (ours / "requirements").mkdir(parents=True)
    for name in ("pyproject.toml", "requirements/dev.txt"):
        (ours / name).touch()
    (ours / ".venv").symlink_to(theirs)
    done = make(ours, "venv", "UV=/bin/true")
    assert done.returncode != 0
    assert ".venv is a link" in done.stdout
    assert list(theirs.iterdir()) == []


def test_of_two_that_make_the_environment_at_once_the_second_waits_and_finds_it_made(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    for name in ("pyproject.toml", "requirements/dev.txt"):
        (tmp_path / name).touch()
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # as the first one does
    with start_make(tmp_path, "venv", "UV=/bin/false") as second:
        assert second.stdout is not None
        assert "waiting" in second.stdout.readline()
        (tmp_path / ".venv").mkdir()
        (tmp_path / ".venv" / ".complete").touch()
        os.close(held)
        assert second.wait() == 0, "it made one, which /bin/false cannot"


def test_without_a_home_in_the_environment_the_cache_is_in_the_users(tmp_path: Path) -> None:
    told = make(tmp_path, "-n", "clean-cache", without=("HOME", "XDG_CACHE_HOME", "SWEYARD_CACHE")).stdout
    assert f'rm -rf "{pwd.getpwuid(os.getuid()).pw_dir}/.cache/sweyard" .venv' in told


def test_the_list_of_targets_holds_no_variable(tmp_path: Path) -> None:
    assert "$(" not in make(tmp_path, "help").stdout
