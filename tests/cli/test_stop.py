"""sweyard stop, resume and attach, as far as no cluster is needed: what they say, and whom they mean."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.constants import ANNOTATION_HOLDER
from sweyard_cli.cluster.held import holder_of
from sweyard_cli.errors import UserError
from sweyard_cli.local.holder import find_holder
from sweyard_cli.local.lock import is_locked, lock

HOLD = """
import pathlib, sys
from sweyard_cli.local.lock import lock

with lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    input()
"""

START = """
import pathlib, sys
from sweyard_cli.local.trainer_process import TrainerProcess

command = [sys.executable, "-c", "import signal; signal.pause()"]
print(TrainerProcess(command, pathlib.Path(sys.argv[1])).popen.pid)
"""


def sandbox(name: str, holder: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {ANNOTATION_HOLDER: holder}}}


def test_the_process_that_works_on_a_directory_is_found_and_stopped(
    tmp_path: Path, sweyard: Callable[..., Any]
) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert find_holder(tmp_path) == process.pid
        result = sweyard("stop", "--output", tmp_path)
        assert f"process {process.pid} takes a checkpoint and stops" in result.stdout
        assert process.wait() == -signal.SIGTERM
    assert "no process works on" in sweyard("stop", "--output", tmp_path).output


def test_a_trainer_is_found_and_stopped_though_who_started_it_is_gone(
    tmp_path: Path, sweyard: Callable[..., Any]
) -> None:
    started = subprocess.run([sys.executable, "-c", START, tmp_path], stdout=subprocess.PIPE, text=True, check=True)
    assert find_holder(tmp_path) == int(started.stdout)
    assert f"process {int(started.stdout)} takes a checkpoint" in sweyard("stop", "--output", tmp_path).stdout
    while is_locked(tmp_path):
        time.sleep(0.01)
    assert "no process works on" in sweyard("stop", "--output", tmp_path).output


def test_who_only_looks_holds_nothing_and_needs_no_right_to_write(tmp_path: Path) -> None:
    assert is_locked(tmp_path) is None
    lock(tmp_path).close()
    assert is_locked(tmp_path) is False
    with lock(tmp_path):
        assert is_locked(tmp_path) is True
        assert find_holder(tmp_path) == os.getpid()


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        ("p-1", r"nobody holds sandbox n/p-1, .*held are p-0"),
        ("p-9", r"there is no sandbox n/p-9; held are p-0"),
    ],
)
def test_only_a_sandbox_that_is_held_is_entered(pod: str, said: str) -> None:
    sandboxes = [sandbox("p-0", "trainer-0"), sandbox("p-1")]
    assert holder_of(sandboxes, "p-0", "n") == "trainer-0"
    with pytest.raises(UserError, match=said):
        holder_of(sandboxes, pod, "n")


@pytest.mark.parametrize("arguments", [("stop",), ("stop", "a", "--output", "b"), ("logs",), ("logs", "a", "-d", "b")])
def test_a_run_is_on_the_cluster_or_here(sweyard: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    result = sweyard(*arguments)
    assert result.exit_code == 2
    assert "name a run on the cluster, or give --output DIR" in result.output


def test_a_shell_needs_a_terminal(sweyard: Callable[..., Any]) -> None:
    assert "a shell needs a terminal; for one command use `kubectl exec p-0" in sweyard("attach", "p-0").output
