"""Processes forked by one that has imported what a run imports, which takes each new interpreter ten seconds."""

import os
import runpy
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any


class WarmInterpreter:
    """Forks processes on request. It is itself no child of pytest's by fork: threads of PyTorch do not survive that."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._requests, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,))
        self._process.start()
        theirs.close()

    def start(self, module: str, arguments: Sequence[str], log: Path) -> "ForkedProcess":
        """`python -m module arguments >>log 2>&1`."""
        return ForkedProcess(self, self.ask((module, arguments, log)))

    def ask(self, request: object) -> Any:
        self._requests.send(request)
        return self._requests.recv()

    def close(self) -> None:
        """Kills what it started."""
        self._requests.close()
        self._process.join()


class ForkedProcess:
    """What a test uses of a subprocess.Popen."""

    def __init__(self, parent: WarmInterpreter, pid: int) -> None:
        self.pid = pid
        self._parent = parent

    def poll(self) -> int | None:
        code: int | None = self._parent.ask(self.pid)
        return code

    def wait(self, timeout: float) -> int:
        give_up_at = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > give_up_at:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)
        return code


def serve(requests: Connection) -> None:
    """Fork what is asked for, or tell how it ended, until nobody is there to ask."""
    import sweyard_trainer.run  # noqa: F401

    started: dict[int | None, BaseProcess] = {}
    with suppress(EOFError):
        while True:
            request = requests.recv()
            if isinstance(request, int):
                requests.send(started[request].exitcode)
            else:
                process = get_context("fork").Process(target=run_module, args=request, daemon=True)
                process.start()
                started[process.pid] = process
                requests.send(process.pid)


def run_module(module: str, arguments: Sequence[str], log: Path) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
