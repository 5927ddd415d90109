"""Ctrl-C while a data set is made: what is kept, and what to type to go on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sweyard_cli.commands.demo import EXAMPLE, OUTPUT, Cluster, demo_command
from sweyard_sandbox.tasks.exclusive import exclusive


@pytest.mark.parametrize(
    ("command", "go_on"),
    [
        (["demo", "-f", "{run}", "--output", "{tmp}/tiny"], "demo --cluster none --file {run} --output {tmp}/tiny"),
        (["tasks", "make", "--name", "mine", "--repo", "a b"], "tasks make --name mine --repo 'a b'"),
    ],
    ids=["demo", "tasks make"],
)
def test_an_interrupted_making_says_what_is_kept_and_how_to_go_on(
    command: list[str], go_on: str, run_file: Path, tmp_path: Path
) -> None:
    """It is interrupted where it waits for another making: a moment that lasts."""
    cache = tmp_path / "cache"
    words = [word.format(run=run_file, tmp=tmp_path) for word in command]
    environment = {**os.environ, "SWEYARD_CACHE": str(cache)}
    with (
        exclusive(cache, print),
        subprocess.Popen(
            [sys.executable, "-m", "sweyard_cli", *words], env=environment, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stderr is not None
        assert "waiting for its end" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
        assert process.wait() == 130
    assert told.startswith("error: interrupted; ")
    assert "verified are kept" in told
    assert told.rstrip().endswith(go_on.format(run=run_file, tmp=tmp_path))


@pytest.mark.parametrize(
    ("cluster", "output", "registry", "told"),
    [
        (Cluster.NONE, OUTPUT, "", "make demo"),
        (Cluster.NATIVE, OUTPUT, "", "make demo CLUSTER=native"),
        (Cluster.EXISTING, OUTPUT, "r.example/me", "make demo CLUSTER=existing REGISTRY=r.example/me"),
        (Cluster.KIND, Path("a b"), "", f"sweyard demo --cluster kind --file {EXAMPLE} --output 'a b'"),
    ],
)
def test_the_demo_is_begun_again_by_the_words_that_began_it(
    cluster: Cluster, output: Path, registry: str, told: str
) -> None:
    assert demo_command(cluster, EXAMPLE, output, registry).endswith(told)
