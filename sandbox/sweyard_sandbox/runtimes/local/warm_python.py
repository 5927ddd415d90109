"""Python programs run by a fork of an interpreter that has already imported what test runners need."""

import contextlib
import gc
import os
import runpy
import signal
import sys
import traceback
from typing import NoReturn

from sweyard_sandbox.runtimes.local.signals import reset_signals

WARM_MODULES = ("argparse", "ctypes", "dataclasses", "json", "random", "select", "shutil", "subprocess", "unittest")
"""Of the standard library alone: a module of the tested repository must never be taken from elsewhere."""


def warm_up() -> None:
    """Import once what every program would import."""
    for name in WARM_MODULES:
        __import__(name)
    gc.collect()
    gc.freeze()


def run_archive(archive: str, arguments: list[str], environment: dict[str, str], output: int) -> NoReturn:
    """In a fresh fork: become what `python3 -I archive arguments` is, with stdout and stderr at `output`."""
    code = 1
    try:
        _forget_the_parent(environment, output)
        sys.argv = [archive, *arguments]
        runpy.run_path(archive, run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:  # this process is now the program: it ends as an interpreter ends one, with what was raised
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _forget_the_parent(environment: dict[str, str], output: int) -> None:
    """Its signals, descriptors, environment, and modules that are not of the standard library."""
    signal.set_wakeup_fd(-1)
    reset_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as a Python that was started has it
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    for target in (1, 2):
        os.dup2(output, target)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(int(name))
    os.environ.clear()
    os.environ.update(environment)
    for name in list(sys.modules):
        if name.split(".")[0] not in sys.stdlib_module_names and name != "__main__":
            del sys.modules[name]
    gc.enable()
