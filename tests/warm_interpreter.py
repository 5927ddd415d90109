"""Processes forked by one that has imported what a run imports, which takes each new interpreter ten seconds."""

import gc
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any


class WarmInterpreter:
    """Forks processes on request. It is itself no child of pytest's by fork: threads of PyTorch do not survive that."""

    def __init__(self, *imported: str) -> None:
        context = get_context("spawn")
        self._requests, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, imported))
        self._process.start()
        theirs.close()

    def start(self, module: str, arguments: Sequence[str], log: Path) -> "ForkedProcess":
        """`python -m module arguments >>log 2>&1`."""
        return self.fork(run_module, module, arguments, log)

    def fork(self, target: Callable[..., None], *arguments: Any) -> "ForkedProcess":
        """A process that does this and ends."""
        return ForkedProcess(self, self.ask((target, arguments)))

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

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def poll(self) -> int | None:
        code: int | None = self._parent.ask(self.pid)
        return code

    def wait(self, timeout: float) -> int:
        with suppress(ProcessLookupError):  # as of one whose end has been asked for
            process = os.pidfd_open(self.pid)
            try:
                wait([process], timeout)
            finally:
                os.close(process)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code


def serve(requests: "Connection[Any, Any]", imported: Sequence[str]) -> None:
    """Fork what is asked for, or tell how it ended, until nobody is there to ask."""
    for module in imported:
        import_module(module)
    gc.freeze()  # no child walks, and so copies, what was imported
    started: dict[int | None, BaseProcess] = {}
    with suppress(EOFError):
        while True:
            request = requests.recv()
            if isinstance(request, int):
                requests.send(started[request].exitcode)
            else:
                process = get_context("fork").Process(target=request[0], args=request[1], daemon=True)
                process.start()
                started[process.pid] = process
                requests.send(process.pid)
            del request  # and the ends of pipes that it holds, for which others wait until the process is gone


def run_module(module: str, arguments: Sequence[str], log: Path) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
