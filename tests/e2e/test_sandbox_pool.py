"""A RolloutPool on a real node: what its sandboxes can do, and what becomes of those that break."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.installation import Installation
from tests.terminal import terminal

from sweyard_api.constants import API_VERSION
from sweyard_cluster.node_config import STRICT_HANDLER, STRICT_LIMITS
from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.errors import FailureReason, InfrastructureError, SandboxEndedError
from sweyard_sandbox.pool.credentials import load_kubeconfig
from sweyard_sandbox.pool.pool import Pool
from sweyard_sandbox.tasks.load import load_all_tasks

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(900)]

CLAIM_SECONDS = 120.0
MEMORY = "192Mi"


@pytest.fixture(scope="module")
def namespace(installation: Installation) -> Iterator[str]:
    """With a pool of three sandboxes under the node's second runtime handler."""
    name = installation.make_namespace()
    resources = {
        "requests": {"cpu": "10m", "memory": "16Mi", "ephemeral-storage": "16Mi"},
        "limits": {"memory": MEMORY, "ephemeral-storage": "64Mi"},
    }
    spec = {
        "replicas": 4,
        "warm": [{"image": installation.task_image, "replicas": 2}],
        "runtimeClassName": STRICT_HANDLER,
        "template": {"resources": resources},
    }
    pool = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": {"name": "p"}, "spec": spec}
    installation.kubectl("-n", name, "apply", "-f", "-", input_text=json.dumps(pool))
    yield name
    installation.kubectl("delete", "namespace", name, "--wait=false")


@pytest_asyncio.fixture
async def pool(cluster: TestCluster, namespace: str) -> AsyncIterator[Pool]:
    async with await Pool.connect(
        namespace=namespace, name="p", credentials=load_kubeconfig(cluster.kubeconfig)
    ) as pool:
        yield pool


async def say(pool: Pool, image: str, *commands: str) -> list[str]:
    async with pool.claim(image, deadline_seconds=CLAIM_SECONDS) as sandbox:
        results = [await sandbox.run(command, timeout_seconds=60) for command in commands]
    return [result.output.decode().strip() for result in results]


async def test_a_sandbox_has_no_more_than_it_needs(installation: Installation, pool: Pool) -> None:
    status = "grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status"
    token, services, files, names, privileges = await say(
        pool,
        installation.task_image,
        "ls /var/run/secrets/kubernetes.io 2>&1 | head -1",
        "env | grep _SERVICE_ | grep -vc ^KUBERNETES_ || true",
        "ulimit -n",
        "grep -v '^#' /etc/resolv.conf",
        status,
    )
    assert "No such file" in token
    assert services == "0"
    assert files == str(STRICT_LIMITS["RLIMIT_NOFILE"]), "the pod runs under its runtimeClassName"
    assert "nameserver 127.0.0.1" in names
    shown = dict(line.split(":\t") for line in privileges.splitlines())
    assert (shown["NoNewPrivs"], shown["Seccomp"]) == ("1", "2")
    chown, dac_override, fowner, kill, setgid, setuid = (1 << bit for bit in (0, 1, 3, 5, 6, 7))
    assert int(shown["CapEff"], 16) & ~(chown | dac_override | fowner | kill | setgid | setuid) == 0


async def test_a_sandbox_reaches_neither_the_api_server_nor_the_node(
    installation: Installation, cluster: TestCluster, pool: Pool
) -> None:
    addresses = cluster.tool.spec(cluster.name).addresses
    reach = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"
    targets = [("10.96.0.1", 443), (addresses.node(1), 10250), (addresses.registry.split(":")[0], 5000)]
    said = await say(
        pool,
        installation.task_image,
        *(f"python3 -c '{reach}' {host} {port} 2>&1 | tail -1 || true" for host, port in targets),
    )
    for answer in said:
        assert "timed out" in answer or "refused" in answer or "unreachable" in answer, said


async def test_a_command_that_eats_the_memory_dies_and_says_so_and_its_sandbox_lives(
    installation: Installation, pool: Pool
) -> None:
    async with pool.claim(installation.task_image, deadline_seconds=CLAIM_SECONDS) as sandbox:
        eaten = await sandbox.run("python3 -c 'kept = [bytearray(1 << 20) for _ in range(4096)]'", timeout_seconds=60)
        after = await sandbox.run("echo well", timeout_seconds=60)
    assert (eaten.oom_killed, eaten.exit_code) == (True, 137)
    assert (after.oom_killed, after.output) == (False, b"well\n")


async def test_attach_is_a_shell_with_a_terminal_beside_the_holder(
    installation: Installation, cluster: TestCluster, namespace: str, pool: Pool
) -> None:
    async with pool.claim(installation.task_image, deadline_seconds=CLAIM_SECONDS) as sandbox:
        await sandbox.write("/tmp/left", b"by the holder")
        command = [sys.executable, "-m", "sweyard_cli", "attach", sandbox.id, "-n", namespace]
        await asyncio.to_thread(use_shell, command, {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)})


def use_shell(command: list[str], environment: dict[str, str]) -> None:
    with terminal(command, environment, 33, 101) as shown:
        shown.wait_for("is held by")
        # What is typed ahead may come before the runtime has heard of the size.
        shown.type("until stty size | grep '^33'; do sleep 0.1; done; cat /tmp/left; sleep 1000\n")
        shown.wait_for("33 101")
        shown.wait_for("by the holder")
        shown.type("\x03")
        shown.type("echo $((6 * 7))-interrupted; exit 7\n")
        shown.wait_for("42-interrupted")
        assert shown.process.wait(timeout=60) == 7
        assert shown.is_as_before


def test_tasks_are_checked_in_its_sandboxes(
    installation: Installation, cluster: TestCluster, namespace: str, dataset: Path, tmp_path: Path
) -> None:
    whole, other = (task.model_copy(update={"image": installation.task_image}) for task in load_all_tasks(dataset)[:2])
    unsolved = other.model_copy(update={"gold_patch": ""})
    rows, report = tmp_path / "rows.jsonl", tmp_path / "report.jsonl"
    rows.write_text("".join(f"{task.model_dump_json()}\n" for task in (whole, unsolved)))
    command = [
        sys.executable,
        "-m",
        "sweyard_cli",
        "tasks",
        "check",
        str(rows),
        "--pool",
        "p",
        "--namespace",
        namespace,
    ]

    done = subprocess.run(
        [*command, "--jobs", "2", "--report", str(report)],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 of 2 tasks may be used"), done
    found = {told["id"]: told["reason"] for told in map(json.loads, report.read_text().splitlines())}
    assert found[whole.id] == ""
    assert "the gold patch does not solve it" in found[unsolved.id]


async def test_broken_sandboxes_are_named_to_their_holder_and_replaced(
    installation: Installation, namespace: str, pool: Pool
) -> None:
    reasons = []
    for act in (end_first_process, evict, fill_disk):
        sandbox = await pool.acquire(installation.task_image, deadline_seconds=CLAIM_SECONDS)
        with pytest.raises(InfrastructureError) as failure:
            await act(installation, namespace, sandbox)
        reasons.append((failure.value.reason, isinstance(failure.value, SandboxEndedError)))
        await sandbox.close()
    assert reasons == [
        (FailureReason.ENDED_FROM_WITHIN, True),
        (FailureReason.EVICTED, False),
        (FailureReason.ENDED_FROM_WITHIN, True),
    ]
    async with pool.claim_many([installation.task_image] * 2, deadline_seconds=CLAIM_SECONDS) as replaced:
        assert len({sandbox.id for sandbox in replaced}) == 2


async def end_first_process(_installation: Installation, _namespace: str, sandbox: Any) -> None:
    await sandbox.run("kill -TERM 1; sleep 100", timeout_seconds=120)


async def fill_disk(_installation: Installation, _namespace: str, sandbox: Any) -> None:
    """The kubelet evicts whoever is beyond its own limit: that is the sandbox's doing, and no failure of a node."""
    await sandbox.run("head -c 150000000 /dev/zero >/tmp/full; sleep 120", timeout_seconds=150)


async def evict(installation: Installation, namespace: str, sandbox: Any) -> None:
    metadata = {"name": sandbox.id, "namespace": namespace}
    eviction = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
    path = f"/api/v1/namespaces/{namespace}/pods/{sandbox.id}/eviction"
    running = asyncio.create_task(sandbox.run("sleep 100", timeout_seconds=120))
    await asyncio.sleep(1)
    await asyncio.to_thread(installation.kubectl, "create", "--raw", path, "-f", "-", input_text=eviction)
    await running
