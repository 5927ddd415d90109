"""Ends all that a command of a sandbox has started, also what left its session."""

import contextlib
import os
import signal
import time

COMMAND_VARIABLE = "SWEYARD_COMMAND"
"""Names the command in the environment of all that it starts, so that a timeout finds it."""
_ROUNDS = 50
_PAUSE_SECONDS = 0.002


def kill_started(leader: int, command_id: str, *, by_fork: bool) -> None:
    """Its group, and all that carries its name, until nothing of it is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    kill_carrying(f"{COMMAND_VARIABLE}={command_id}", by_fork=by_fork)


def kill_carrying(assignment: str, *, by_fork: bool = False) -> None:
    """All that have a variable, as in `NAME=value`, in their environment, until there is none; see `find_carrying`."""
    for _ in range(_ROUNDS):
        if not (found := find_carrying(assignment, by_fork=by_fork)):
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)


def find_carrying(assignment: str, *, by_fork: bool = False) -> list[int]:
    """Processes that have a variable in their environment.

    What a program `by_fork` has forked carries no name and cannot be looked into, unless it has executed something.
    """
    name = assignment.encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as environment:
                is_found = name in environment.read().split(b"\0")
        except PermissionError:
            is_found = by_fork
        except OSError:
            is_found = False
        if is_found:
            found.append(int(entry))
    return found
