"""The operator as a process of its own, outside of the cluster: started, killed, and measured by the kernel's books."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
_READY_SECONDS = 90.0
_END_SECONDS = 20.0
_KEPT_SECONDS = 0.3
ALONE = {"SWEYARD_LEADER_LEASE_SECONDS": "600"}
"""For an operator that nobody else would follow: a machine too busy for a renewal in 15 s is to be measured too."""


class OperatorProcess:
    """`python -m sweyard_operator`; `variables` go into its environment. The name stays the same over restarts, as a
    container's that is restarted in its pod."""

    def __init__(self, kubeconfig: Path, log: Path, **variables: str) -> None:
        self._port = free_port()
        self._log = log
        self._environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(kubeconfig),
            "POD_NAMESPACE": "default",
            "POD_NAME": "operator-under-test",
            "SWEYARD_HTTP_PORT": str(self._port),
            **variables,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Without waiting for anything."""
        command = [sys.executable, "-m", "sweyard_operator"]
        with self._log.open("ab") as file:
            self._process = subprocess.Popen(command, env=self._environment, cwd=CHECKOUT, stdout=file, stderr=file)

    def start_if_ended(self) -> bool:
        """Whether that was needed."""
        if self.is_running():
            return False
        self.start()
        return True

    def wait_until_ready(self) -> None:
        """It leads and its caches are filled. Raises RuntimeError with the end of its log."""
        give_up_at = time.monotonic() + _READY_SECONDS
        while not self._answers("/readyz"):
            self.check_running()
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"the operator did not come up:\n{self._log.read_text()[-2_000:]}")
            time.sleep(0.1)

    def check_running(self) -> None:
        """Raises RuntimeError with the end of its log if it has ended."""
        if not self.is_running():
            raise RuntimeError(f"the operator ended:\n{self._log.read_text()[-2_000:]}")

    def is_running(self) -> bool:
        """It was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process started last."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """As by -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Ask it to end, then insist."""
        if self._process is None or not self.is_running():
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def scrape(self) -> str:
        """Its /metrics, as text."""
        with urllib.request.urlopen(self._url("/metrics"), timeout=10) as reply:
            text: str = reply.read().decode()
            return text

    def _answers(self, path: str) -> bool:
        with contextlib.suppress(OSError, urllib.error.HTTPError), urllib.request.urlopen(self._url(path), timeout=2):
            return True
        return False

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"


@contextlib.contextmanager
def running_operator(kubeconfig: Path, log: Path) -> Iterator[OperatorProcess]:
    """At work, and started again whenever it ends, as by a kubelet; each such start is told."""
    operator, is_over = OperatorProcess(kubeconfig, log), threading.Event()
    operator.start()

    def keep() -> None:
        while not is_over.wait(_KEPT_SECONDS):
            if operator.start_if_ended():
                print("the operator ended and was started again", flush=True)

    try:
        operator.wait_until_ready()
        keeper = threading.Thread(target=keep)
        keeper.start()
        try:
            yield operator
        finally:
            is_over.set()
            keeper.join()
    finally:
        operator.end()


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_rss_mib(pid: int) -> float:
    """The most memory that a process has had resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1_024


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
