"""A command that is told to end leaves nothing running that it had begun."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweyard_cluster.processes import identify

DOCKER = """#!/bin/sh
[ "$1" = build ] || exit 0
sleep 1000 &
echo $$ $! > "$PIDS.new" && mv "$PIDS.new" "$PIDS"
wait
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_build_of_images_ends_with_its_builder_and_what_that_runs(tmp_path: Path, number: signal.Signals) -> None:
    docker, checkout, pids = tmp_path / "bin" / "docker", tmp_path / "checkout", tmp_path / "pids"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    (checkout / "images").mkdir(parents=True)
    path = f"{docker.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PIDS": str(pids), "SWEYARD_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "sweyard_cluster", "images", "build", "python", "--checkout", str(checkout)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        while not pids.exists():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.01)
        begun = [int(pid) for pid in pids.read_text().split()]
        process.send_signal(number)
        assert process.wait() == 128 + number
    while any(map(identify, begun)):  # a killed one may take a moment to go
        time.sleep(0.01)
