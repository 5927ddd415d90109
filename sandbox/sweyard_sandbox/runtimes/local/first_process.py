"""The first process of an isolated sandbox: a fork of the spawner that serves its client, and never execs.

Requests (messages.py), one served after the other; `number` comes back in the answer:
  {op: run, number, argv, id, timeout_seconds, cap_bytes}         a descriptor, if there is one, becomes the command's 5
  {op: python, number, archive, arguments, id, timeout_seconds, cap_bytes}
  {op: read, number, path}                                        answered with a descriptor
  {op: write, number, path, mode}                                 with a descriptor of the content
  {op: listen, number}                                            answered with a descriptor: commands can connect to it
  {op: kill, number}                                              ends request `number`; has no answer of its own
Answers: {number, code, timed_out, truncated, seconds} with a descriptor of the output, {number}, or {number, errno}.

Invariants:
- no content of files passes through this process's memory, which tests run by `python` inherit;
- it cannot be inspected by the commands, nor killed by them: it is the first process of its namespace;
- more than `max_processes` processes are killed, all of them: what breeds them has no other bound on this machine;
- what a command's background children write after it ended is read and dropped, so they live on.
"""

import contextlib
import fcntl
import gc
import os
import select
import signal
import socket
import struct
import termios
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sweyard_sandbox.runtimes.local.files import write_file
from sweyard_sandbox.runtimes.local.killing import COMMAND_VARIABLE, kill_started
from sweyard_sandbox.runtimes.local.messages import receive_message, send_message, to_descriptor
from sweyard_sandbox.runtimes.local.signals import RESETTABLE
from sweyard_sandbox.runtimes.local.warm_python import run_archive

_PAYLOAD_DESCRIPTOR = 5
_TERM_GRACE_SECONDS = 1.0
_CHUNK_BYTES = 65_536
_CENSUS_SECONDS = 0.05
_BACKLOG = 64
_BOUND_MARK = b"\n[more than %d processes: all were killed]\n"


@dataclass(slots=True)
class _Running:
    """The command under way; it leads a session of its own."""

    request: dict[str, Any]
    pid: int
    output: int
    """Reading end of its pipe."""
    began: float
    deadline: float
    text: bytearray = field(default_factory=bytearray)
    truncated: bool = False
    timed_out: bool = False
    is_ended: bool = False
    """Its time is over: all that is left of it must be killed."""
    status: int | None = None
    mark: bytes = b""
    """What the sandbox itself has to say, after the command's output."""


class FirstProcess:
    """Serves until the stream ends."""

    def __init__(self, stream: socket.socket, environment: dict[str, str], max_processes: int) -> None:
        self._stream = stream
        self._max_processes = max_processes
        self._has_children = False
        self._next_census = 0.0
        self._environment = environment
        self._running: _Running | None = None
        self._waiting: deque[tuple[dict[str, Any], list[int]]] = deque()
        self._left_over: set[int] = set()
        """Pipes of commands that have ended."""
        self._poll = select.poll()
        self._wake_read, self._wake_write = os.pipe()

    def serve(self) -> NoReturn:
        """Never returns: the process ends with the stream, and the sandbox with the process."""
        gc.disable()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for descriptor in (self._stream.fileno(), self._wake_read):
            self._poll.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in self._poll.poll(self._patience_ms())]
            for descriptor in ready:
                self._attend(descriptor)
            self._keep_time()
            self._bound_processes()
            while self._running is None and self._waiting:
                self._begin(*self._waiting.popleft())

    def _patience_ms(self) -> float | None:
        running = self._running
        left = None if running is None else max(0.0, 1e3 * (running.deadline - time.monotonic()))
        if not self._has_children:
            return left
        return 1e3 * _CENSUS_SECONDS if left is None else min(left, 1e3 * _CENSUS_SECONDS)

    def _attend(self, descriptor: int) -> None:
        if descriptor == self._stream.fileno():
            received = receive_message(self._stream)
            if received is None:
                os._exit(0)
            self._take(*received)
        elif descriptor == self._wake_read:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4_096)
            self._reap()
        elif descriptor in self._left_over:
            with contextlib.suppress(BlockingIOError):  # `_finish` took what this round of polling had seen
                if not os.read(descriptor, _CHUNK_BYTES):
                    self._drop(descriptor)
        elif self._running is not None and descriptor == self._running.output:
            self._read_output(self._running, _CHUNK_BYTES)

    def _take(self, request: dict[str, Any], descriptors: list[int]) -> None:
        if request["op"] != "kill":
            self._waiting.append((request, descriptors))
        elif self._running is not None and self._running.request["number"] == request["number"]:
            self._end(self._running)
        else:
            self._waiting = deque(item for item in self._waiting if item[0]["number"] != request["number"])

    # files

    def _begin(self, request: dict[str, Any], descriptors: list[int]) -> None:
        try:
            match request["op"]:
                case "run":
                    self._spawn(request, descriptors)
                case "python":
                    self._fork(request)
                case "read":
                    descriptors.append(os.open(request["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
                    self._answer(request, {}, descriptors[-1])
                case "write":
                    write_file(request["path"], descriptors[0], request["mode"])
                    self._answer(request, {})
                case "listen":
                    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
                    descriptors.append(listener.detach())
                    self._answer(request, {}, descriptors[-1])
        except OSError as error:
            self._answer(request, {"errno": error.errno})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _answer(self, request: dict[str, Any], answer: dict[str, Any], *descriptors: int) -> None:
        try:
            send_message(self._stream, {"number": request["number"]} | answer, descriptors)
        except OSError:
            os._exit(0)  # nobody is there any more

    # commands

    def _spawn(self, request: dict[str, Any], descriptors: list[int]) -> None:
        try:
            self._spawn_shell(request, descriptors)
        except BlockingIOError:  # background children took all numbers of processes that there are
            self._kill_all()
            self._spawn_shell(request, descriptors)

    def _spawn_shell(self, request: dict[str, Any], descriptors: list[int]) -> None:
        output, end = os.pipe()
        actions: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, end, target) for target in (1, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, descriptor, _PAYLOAD_DESCRIPTOR) for descriptor in descriptors]
        try:
            pid = os.posix_spawn(
                request["argv"][0],
                ["sh", *request["argv"][1:]],
                self._environment | {COMMAND_VARIABLE: request["id"]},
                file_actions=actions,
                setsid=True,
                setsigdef=RESETTABLE,
            )
        except OSError:
            os.close(output)
            raise
        finally:
            os.close(end)
        self._watch(request, pid, output)

    def _fork(self, request: dict[str, Any]) -> None:
        output, end = os.pipe()
        pid = os.fork()
        if pid == 0:
            environment = self._environment | {COMMAND_VARIABLE: request["id"]}
            run_archive(request["archive"], request["arguments"], environment, end)
        os.close(end)
        self._watch(request, pid, output)

    def _watch(self, request: dict[str, Any], pid: int, output: int) -> None:
        now = time.monotonic()
        self._running = _Running(request, pid, output, now, now + request["timeout_seconds"])
        self._has_children = True
        os.set_blocking(output, False)
        self._poll.register(output, select.POLLIN)

    def _read_output(self, running: _Running, size: int) -> int:
        try:
            chunk = os.read(running.output, size)
        except BlockingIOError:
            return 0
        if not chunk:
            self._poll.unregister(running.output)
        room = running.request["cap_bytes"] - len(running.text)
        running.text += chunk[:room]
        running.truncated |= len(chunk) > room
        return len(chunk)

    def _reap(self, options: int = os.WNOHANG) -> None:
        """Take the status of every child that ended; orphans of the sandbox are this process's children."""
        try:
            while True:
                pid, status = os.waitpid(-1, options)
                if pid == 0:
                    break
                if self._running is not None and pid == self._running.pid:
                    self._running.status = status
        except ChildProcessError:
            self._has_children = False
        if self._running is not None and self._running.status is not None:
            self._finish(self._running)

    def _finish(self, running: _Running) -> None:
        if running.is_ended:
            kill_started(running.pid, running.request["id"], by_fork=running.request["op"] == "python")
        # What it wrote is in the pipe by now; what comes later is its background children's.
        (left,) = struct.unpack("i", fcntl.ioctl(running.output, termios.FIONREAD, bytes(4)))
        while left > 0 and (taken := self._read_output(running, min(left, _CHUNK_BYTES))):
            left -= taken
        self._running = None
        with contextlib.suppress(KeyError):
            self._poll.unregister(running.output)
        self._left_over.add(running.output)
        self._poll.register(running.output, select.POLLIN)
        assert running.status is not None
        code = os.waitstatus_to_exitcode(running.status)
        answer = {
            "code": -1 if running.timed_out else code if code >= 0 else 128 - code,
            "timed_out": running.timed_out,
            "truncated": running.truncated,
            "seconds": time.monotonic() - running.began,
        }
        text = to_descriptor(running.text + running.mark)
        self._answer(running.request, answer, text)
        os.close(text)

    def _drop(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._left_over.discard(descriptor)
        os.close(descriptor)

    # bounds

    def _bound_processes(self) -> None:
        """Signals to all reach also those born meanwhile, so that nothing outruns them."""
        now = time.monotonic()
        if not self._has_children or now < self._next_census:
            return
        self._next_census = now + _CENSUS_SECONDS
        if sum(map(str.isdecimal, os.listdir("/proc"))) > self._max_processes:
            self._kill_all()

    def _kill_all(self) -> None:
        """Kill and reap every process but this one."""
        if self._running is not None:
            self._running.mark = _BOUND_MARK % self._max_processes
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        self._reap(0)

    def _keep_time(self) -> None:
        running = self._running
        if running is None or time.monotonic() < running.deadline:
            return
        if running.is_ended:
            kill_started(running.pid, running.request["id"], by_fork=running.request["op"] == "python")
            running.deadline = time.monotonic() + _TERM_GRACE_SECONDS
            return
        running.timed_out = running.is_ended = True
        running.deadline = time.monotonic() + _TERM_GRACE_SECONDS
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, signal.SIGTERM)

    def _end(self, running: _Running) -> None:
        """Its client does not want it any more."""
        running.is_ended = True
        kill_started(running.pid, running.request["id"], by_fork=running.request["op"] == "python")
