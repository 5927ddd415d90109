"""Sandboxes on a real node that serve one holder after the other: nothing of a use is left for the next, or the sandbox
is."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.installation import Installation

from sweyard_api.constants import ANNOTATION_RECYCLED, API_VERSION
from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.pool.credentials import load_kubeconfig
from sweyard_sandbox.pool.pool import Pool
from sweyard_sandbox.runtimes.kubernetes.pod_sandbox import PodSandbox

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(300)]

CHECKOUT = Path(__file__).parents[2]
SECONDS = 90.0
LITTER = """
for file in /etc/hosts /dev/shm/litter /dev/shm/.litter /tmp/litter ~/litter /bin/cat; do
  mkdir -p ${file%/*} && echo litter >>$file
done
chmod 600 /etc/hosts
mkfifo '/dev/shm/a b' && ln -s /nowhere /dev/shm/broken
setsid sh -c "trap '' TERM HUP; while :; do sleep 1; done" >/dev/null 2>&1 &
nohup python3 -c 'import time; time.sleep(999)' >/dev/null 2>&1 &
"""
SYSV = "import ctypes; assert ctypes.CDLL(None).shmget(4711, 4096, 0o1666) >= 0"
CONNECTION = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
accepted.close()
client.close()
"""
DIRT = [
    pytest.param("Kernel", f"python3 -c '{SYSV}'", id="shared memory of System V"),
    pytest.param("Kernel", f"python3 - <<'.'\n{CONNECTION}.", id="a connection that lingers"),
    pytest.param("Files", "echo nameserver 10.9.8.7 >>/etc/resolv.conf", id="another resolver"),
    pytest.param("Files", "chmod 600 /etc/resolv.conf", id="a mode"),
    pytest.param("Files", """python3 -c 'import os; os.setxattr("/etc/hosts", "user.x", b"y")'""", id="an attribute"),
]


class Yard:
    """A pool that recycles."""

    def __init__(self, installation: Installation, cluster: TestCluster) -> None:
        self.cluster = cluster
        self.namespace = installation.make_namespace()
        self.image = installation.task_image

    def get(self, what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cluster.kubectl("-n", self.namespace, "get", what, "-o", "json"))
        return found

    def pod(self, name: str) -> dict[str, Any]:
        return next((pod for pod in self.get("pods")["items"] if pod["metadata"]["name"] == name), {})

    def discarded(self) -> dict[str, int]:
        return dict(self.get("rolloutpool/p").get("status", {}).get("discarded") or {})

    async def until(self, holds: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + SECONDS
        while not await asyncio.to_thread(holds):
            assert time.monotonic() < give_up_at, json.dumps(self.get("pods")["items"], indent=1)[-6_000:]
            await asyncio.sleep(0.3)


@pytest.fixture(scope="module")
def yard(installation: Installation, cluster: TestCluster) -> Yard:
    yard = Yard(installation, cluster)
    spec = {
        "replicas": 1,
        "warm": [{"image": yard.image, "replicas": 1}],
        "recycle": "verified",
        "maxUses": 3,
        "template": {"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "256Mi"}}},
    }
    pool = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": {"name": "p"}, "spec": spec}
    cluster.kubectl("-n", yard.namespace, "apply", "-f", "-", input_text=json.dumps(pool))
    return yard


@pytest_asyncio.fixture
async def pool(yard: Yard) -> AsyncIterator[Pool]:
    credentials = load_kubeconfig(yard.cluster.kubeconfig)
    async with await Pool.connect(namespace=yard.namespace, name="p", credentials=credentials) as pool:
        yield pool


async def claim(yard: Yard, pool: Pool) -> tuple[DriverSandbox, dict[str, Any]]:
    sandbox = await pool.acquire(yard.image, deadline_seconds=SECONDS)
    return sandbox, await asyncio.to_thread(yard.pod, sandbox.id)


def is_recycled(yard: Yard, pod: dict[str, Any], times: int) -> Callable[[], bool]:
    def look() -> bool:
        now = yard.pod(pod["metadata"]["name"])
        assert now.get("metadata", {}).get("uid") == pod["metadata"]["uid"], "it was discarded"
        return now["metadata"]["annotations"].get(ANNOTATION_RECYCLED) == str(times)

    return look


async def test_nothing_of_a_use_is_left_for_the_next_one(yard: Yard, pool: Pool) -> None:
    first, pod = await claim(yard, pool)
    assert (await first.run(LITTER, timeout_seconds=30)).exit_code == 0
    await first.close()
    await yard.until(is_recycled(yard, pod, 1))
    # From the host: who runs, and what is in the container's own layer.
    processes = {pid: words for pid, words in find_processes(pod["metadata"]["uid"]).items() if "pause" not in words}
    (shell,) = (pid for pid, words in processes.items() if "sleep 86400 & wait" in words)
    assert [words.strip() for pid, words in processes.items() if pid != shell] == ["sleep 86400"]
    assert not [path for path in upper_layer(shell).rglob("*") if "litter" in path.name or path.name == "cat"]
    second, again = await claim(yard, pool)
    assert again["metadata"]["uid"] == pod["metadata"]["uid"]
    found = await second.run("cat /etc/hosts /dev/shm/litter /tmp/litter ~/litter; ls /dev/shm", timeout_seconds=30)
    assert "litter\n" not in found.text.replace("No such file", "")
    assert "broken" not in found.text
    assert "litter" not in (await second.run("tail -c 99 /bin/cat", timeout_seconds=30)).text
    assert isinstance(second, PodSandbox)
    second.forbid_reuse()  # the kubelet would take its time to restart it once more
    await second.close()


def find_processes(pod_uid: str) -> dict[int, str]:
    """Command lines of a pod's processes, by id on the host."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and pod_uid in (entry / "cgroup").read_text().replace("_", "-"):
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def upper_layer(pid: int) -> Path:
    """What a container has written, seen from its parent, which lives in the node."""
    root = next(line for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines() if " / / " in line)
    upper = next(part.removeprefix("upperdir=") for part in root.split(" - ")[1].split(",") if "upperdir=" in part)
    parent = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1]
    layer = Path(f"/proc/{parent}/root{upper}")
    assert layer.is_dir()
    return layer


@pytest.mark.parametrize(("reason", "litter"), DIRT)
async def test_what_a_reset_cannot_remove_costs_the_sandbox(yard: Yard, pool: Pool, reason: str, litter: str) -> None:
    sandbox, pod = await claim(yard, pool)
    before = yard.discarded().get(reason, 0)
    littered = await sandbox.run(litter, timeout_seconds=30)
    assert littered.exit_code == 0, littered.text
    await sandbox.close()
    await yard.until(lambda: yard.pod(pod["metadata"]["name"]).get("metadata", {}).get("uid") != pod["metadata"]["uid"])
    await yard.until(lambda: yard.discarded().get(reason, 0) == before + 1)


async def test_a_container_that_ends_by_itself_is_a_failure_and_gets_no_further_command(yard: Yard, pool: Pool) -> None:
    sandbox, pod = await claim(yard, pool)
    with pytest.raises(InfrastructureError) as failure:
        await sandbox.run("kill -TERM 1; sleep 100", timeout_seconds=120)
    assert failure.value.reason is FailureReason.ENDED_FROM_WITHIN
    with pytest.raises(InfrastructureError):
        await sandbox.run("true", timeout_seconds=10)
    await sandbox.close()
    await yard.until(lambda: yard.pod(pod["metadata"]["name"]).get("metadata", {}).get("uid") != pod["metadata"]["uid"])


async def test_a_sandbox_whose_holder_forbids_it_never_serves_again(yard: Yard, pool: Pool) -> None:
    sandbox, pod = await claim(yard, pool)
    assert isinstance(sandbox, PodSandbox)
    sandbox.forbid_reuse()
    await sandbox.close()
    await yard.until(lambda: yard.pod(pod["metadata"]["name"]).get("metadata", {}).get("uid") != pod["metadata"]["uid"])
