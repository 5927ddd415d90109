"""A real vLLM server of this machine, started as a run's engine pods start theirs."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweyard_api.engine_command import ENGINE_START, engine_arguments, engine_environment
from sweyard_api.training_run import TrainingRunSpec

START_SECONDS = 600.0
END_SECONDS = 60.0
LOCALHOST = "127.0.0.1"


@contextmanager
def running_vllm(spec: TrainingRunSpec, model: Path, log: Path) -> Iterator[str]:
    """Its URL; `spec` is resolved, `model` the prepared model, and what it says is added to `log`."""
    port = _free_port()
    command = [sys.executable, *ENGINE_START, *engine_arguments(spec, str(model), port)]
    environment = {**os.environ, **engine_environment(spec)}
    with log.open("a") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            url = f"http://{LOCALHOST}:{port}"
            _wait_until_healthy(url, server, log)
            yield url
        finally:
            server.terminate()
            server.wait(END_SECONDS)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((LOCALHOST, 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_healthy(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up_at = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up_at:
        assert server.poll() is None, log.read_text()[-3_000:]
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(f"vLLM did not start in {START_SECONDS:g} s:\n{log.read_text()[-3_000:]}")
