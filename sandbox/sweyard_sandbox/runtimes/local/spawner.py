"""The process that forks sandboxes: small and single-threaded, so a fork takes a millisecond and is safe.

Run as `python -m sweyard_sandbox.runtimes.local.spawner FD` with FD a SOCK_SEQPACKET socket. Requests are JSON:
{"op": "spawn", "layout": {...} or null, "argv": [...], "environment": {...}, "directory": "..."} with one descriptor;
{"op": "kill", "pid": n}; {"op": "own", "folder": "..."}. Answers: {"pid": n}, {"killed": n}, {"owned": "..."} or
{"error": "..."}.
With a layout the child becomes an isolated sandbox's first process, which serves the descriptor (first_process.py);
without, `argv` is executed with the descriptor as stdin and stdout. The spawner ends when the other side of the socket
closes, however that happens; all sandboxes end and all folders that it owns are removed with it. Its environment must
hold nothing that a sandbox may not know.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from typing import Any

from sweyard_sandbox.runtimes.local import kernel
from sweyard_sandbox.runtimes.local.first_process import FirstProcess
from sweyard_sandbox.runtimes.local.isolation import NAMESPACES, Layout, build_root
from sweyard_sandbox.runtimes.local.signals import reset_signals
from sweyard_sandbox.runtimes.local.warm_python import warm_up

_MAX_REQUEST_BYTES = 200_000
_NUM_IDS = 65_536


def main() -> None:
    """Serve until the socket closes."""
    control = socket.socket(fileno=int(sys.argv[1]))
    # Commands must not inherit the channel on which this process answers the host.
    control.set_inheritable(False)
    warm_up()
    alive: set[int] = set()
    owned: list[str] = []
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, _MAX_REQUEST_BYTES, 1)
        if not data:
            break
        request = json.loads(data)
        try:
            answer = _serve(request, descriptors, alive, owned)
        except OSError as error:
            answer = {"error": str(error)}
        for descriptor in descriptors:
            os.close(descriptor)
        try:
            control.send(json.dumps(answer).encode())
        except ConnectionError:  # the host went while it waited for the answer
            break
    for pid in list(alive):
        _kill(pid, alive)
    for folder in owned:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(request: dict[str, Any], descriptors: list[int], alive: set[int], owned: list[str]) -> dict[str, Any]:
    if request["op"] == "own":
        owned.append(request["folder"])
        return {"owned": request["folder"]}
    return _kill(request["pid"], alive) if request["op"] == "kill" else _spawn(request, descriptors[0], alive)


def _kill(pid: int, alive: set[int]) -> dict[str, Any]:
    """Kill a sandbox's first process, and with it all others; waits until they are gone."""
    if pid in alive:
        alive.discard(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"killed": pid}


def _spawn(request: dict[str, Any], stream: int, alive: set[int]) -> dict[str, Any]:
    layout = request["layout"] and Layout(**request["layout"])
    privileged = os.geteuid() == 0
    report_read, report_write = os.pipe()
    go_read, go_write = os.pipe()
    flags = NAMESPACES if privileged else NAMESPACES | kernel.CLONE_NEWUSER
    pid = kernel.fork_into(flags if layout else 0)
    if pid == 0:
        os.close(report_read)
        os.close(go_write)
        _become_sandbox(request, layout, stream, report_write, go_read, privileged=privileged)
    alive.add(pid)
    os.close(report_write)
    os.close(go_read)
    with os.fdopen(report_read, "rb") as report, os.fdopen(go_write, "wb", buffering=0) as go:
        try:
            if layout and not privileged:
                _map_users(pid, f"0 {os.geteuid()} 1", f"0 {os.getegid()} 1")
            go.write(b".")
            if layout and privileged and report.read(1) == b"u":
                _map_users(pid, f"0 0 {_NUM_IDS}", f"0 0 {_NUM_IDS}")
                go.write(b".")
            problem = report.read()
        except OSError as error:
            problem = str(error).encode()
    if problem:
        _kill(pid, alive)
        return {"error": problem.decode("utf-8", "replace").strip()}
    return {"pid": pid}


def _map_users(pid: int, users: str, groups: str) -> None:
    if os.geteuid() != 0 or pid == os.getpid():
        _write(f"/proc/{pid}/setgroups", "deny")
    _write(f"/proc/{pid}/uid_map", users)
    _write(f"/proc/{pid}/gid_map", groups)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _become_sandbox(
    request: dict[str, Any], layout: Layout | None, stream: int, report: int, go: int, *, privileged: bool
) -> None:
    """Never returns. Problems are written to `report`, which closes when all is well."""
    try:
        os.read(go, 1)
        _write("/proc/self/oom_score_adj", "1000")  # where memory runs out, not the trainer but this goes
        if layout:
            build_root(layout, privileged=privileged)
            kernel.unshare(kernel.CLONE_NEWUSER)
            if privileged:
                os.write(report, b"u")
                os.read(go, 1)
                os.setgroups([])
            else:
                _map_users(os.getpid(), "0 0 1", "0 0 1")
        os.setsid()
        kernel.die_with_parent()
        os.chdir(request["directory"])
        _dup_all(stream if not layout else os.open("/dev/null", os.O_RDWR), (0, 1))
        _dup_all(os.open("/dev/null", os.O_WRONLY), (2,))
        if layout:
            kernel.hide_from_others()
            _close_all_but(stream)
            os.set_inheritable(stream, False)
            FirstProcess(socket.socket(fileno=stream), request["environment"], layout.max_processes).serve()
        reset_signals()
        os.execve(request["argv"][0], request["argv"], request["environment"])
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(report, f" {error}".encode())
    os._exit(1)


def _dup_all(descriptor: int, targets: tuple[int, ...]) -> None:
    for target in targets:
        os.dup2(descriptor, target)


def _close_all_but(descriptor: int) -> None:
    """Besides the first three; the host's socket must not be in a sandbox."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != descriptor:
            with contextlib.suppress(OSError):
                os.close(int(name))


if __name__ == "__main__":
    main()
