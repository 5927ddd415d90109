"""What only pods can do: networks that cut streams, pods that die, kernels that kill."""

import asyncio
import random
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from tests.sandbox.contract.flaky_proxy import FlakyProxy
from tests.sandbox.contract.pod_stock import PodStock

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.pool.credentials import load_kubeconfig
from sweyard_sandbox.pool.pool import Pool

pytestmark = pytest.mark.kubelet
IDLE_SECONDS = 2.0


@pytest.fixture
async def proxy(stock: PodStock) -> AsyncIterator[FlakyProxy]:
    server = urlsplit(load_kubeconfig(stock.cluster.kubeconfig).server)
    made = FlakyProxy(server.hostname or "", server.port or 443, IDLE_SECONDS)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def pool(stock: PodStock, proxy: FlakyProxy) -> AsyncIterator[Pool]:
    credentials = load_kubeconfig(stock.cluster.kubeconfig)
    credentials.server = f"https://127.0.0.1:{proxy.port}"
    assert credentials.ssl_context is not None
    credentials.ssl_context.check_hostname = False
    async with await Pool.connect(
        namespace=stock.namespace,
        name=stock.pool,
        credentials=credentials,
        environment={},
        heartbeat_seconds=IDLE_SECONDS / 4,
        rng=random.Random(),
    ) as made:
        yield made


async def test_pings_keep_a_silent_stream_open(stock: PodStock, pool: Pool) -> None:
    stock.take()
    async with pool.claim(stock.image, deadline_seconds=60) as sandbox:
        result = await sandbox.run("sleep 6; echo line >>/tmp/lines; cat /tmp/lines", timeout_seconds=60)
        assert result.text == "line\n"
        await asyncio.sleep(5)
        assert (await sandbox.run("cat /tmp/lines", timeout_seconds=20)).text == "line\n"
        assert sandbox.client.counters.reconnects == 0


async def test_an_outage_of_the_api_server_in_mid_command_loses_nothing(
    stock: PodStock, pool: Pool, proxy: FlakyProxy
) -> None:
    stock.take()
    async with pool.claim(stock.image, deadline_seconds=60) as sandbox:
        command = "echo before; sleep 2; echo line >>/tmp/lines; cat /tmp/lines; exit 3"
        task = asyncio.create_task(sandbox.run(command, timeout_seconds=60))
        await asyncio.sleep(0.7)
        proxy.is_down = True
        proxy.drop_all()
        await asyncio.sleep(4)
        proxy.is_down = False
        result = await task
        assert (result.exit_code, result.text) == (3, "before\nline\n")
        assert sandbox.client.counters.reconnects == 1
        assert (await sandbox.run("cat /tmp/lines", timeout_seconds=20)).text == "line\n"


async def test_a_connection_that_hangs_is_given_up_and_loses_nothing(
    stock: PodStock, pool: Pool, proxy: FlakyProxy
) -> None:
    stock.take()
    async with pool.claim(stock.image, deadline_seconds=60) as sandbox:
        task = asyncio.create_task(sandbox.run("sleep 1; echo line >>/tmp/lines; cat /tmp/lines", timeout_seconds=60))
        await asyncio.sleep(0.5)
        proxy.is_frozen = True
        await asyncio.sleep(2 * IDLE_SECONDS)
        proxy.is_frozen = False
        assert (await task).text == "line\n"
        assert sandbox.client.counters.reconnects >= 1


@pytest.mark.parametrize("size", [100_000, 3_000_000])
async def test_large_output_over_an_outage_is_whole(stock: PodStock, pool: Pool, proxy: FlakyProxy, size: int) -> None:
    stock.take()
    async with pool.claim(stock.image, deadline_seconds=60) as sandbox:
        command = f"echo before; sleep 1.5; yes 0123456 | head -c {size}; sleep 1; echo after"
        task = asyncio.create_task(sandbox.run(command, timeout_seconds=60, output_cap_bytes=5_000_000))
        await asyncio.sleep(0.7)
        proxy.is_down = True
        proxy.drop_all()
        await asyncio.sleep(4)
        proxy.is_down = False
        result = await task
        assert result.output == b"before\n" + b"0123456\n" * (size // 8) + b"after\n"


async def test_an_outage_amid_a_flood_of_output_is_whole(stock: PodStock, pool: Pool, proxy: FlakyProxy) -> None:
    stock.take()
    async with pool.claim(stock.image, deadline_seconds=60) as sandbox:
        command = "i=0; while [ $i -lt 40 ]; do yes $i | head -c 100000; sleep 0.1; i=$((i+1)); done"
        task = asyncio.create_task(sandbox.run(command, timeout_seconds=100, output_cap_bytes=5_000_000))
        for _ in range(4):
            await asyncio.sleep(1.2)
            proxy.drop_all()
        result = await task
        parts = [(f"{number}\n".encode() * 100_000)[:100_000] for number in range(40)]
        assert result.output == b"".join(parts)
        assert sandbox.client.counters.reconnects >= 1


async def test_streams_that_break_again_and_again_run_each_command_once(
    stock: PodStock, pool: Pool, proxy: FlakyProxy
) -> None:
    async def disturb() -> None:
        while True:
            await asyncio.sleep(1.5)
            proxy.drop_all()

    stock.take()
    async with pool.claim(stock.image, deadline_seconds=60) as sandbox:
        disturber = asyncio.create_task(disturb())
        for number in range(15):
            result = await sandbox.run(f"echo {number} >>/tmp/many; sleep 0.3; echo {number}", timeout_seconds=60)
            assert result.text == f"{number}\n"
        disturber.cancel()
        lines = (await sandbox.run("cat /tmp/many", timeout_seconds=20)).text.split()
        assert lines == [str(number) for number in range(15)]
        assert sandbox.client.counters.reconnects >= 1


async def test_a_pod_deleted_under_a_command_is_infrastructure(stock: PodStock, pool: Pool) -> None:
    stock.take()
    async with pool.claim(stock.image, deadline_seconds=60) as sandbox:
        task = asyncio.create_task(sandbox.run("sleep 60", timeout_seconds=100))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(stock.kubectl, "delete", "pod", sandbox.id, "--wait=false")
        with pytest.raises(InfrastructureError) as caught:
            await task
        assert caught.value.reason is FailureReason.DELETED


async def test_a_first_process_killed_for_memory_is_typed(stock: PodStock, pool: Pool) -> None:
    hungry = "while [ ! -e /tmp/go ]; do sleep 0.2; done; exec python3 -c 'x = b\"x\" * 500_000_000'"
    name = "hungry"
    limits = {"resources": {"limits": {"memory": "64Mi"}}, "command": ["/bin/sh", "-c", hungry]}
    await asyncio.to_thread(stock.make, [name], **limits)
    sandbox = await acquire_named(pool, stock, name)
    with pytest.raises(InfrastructureError) as caught:
        await sandbox.run("touch /tmp/go; sleep 60", timeout_seconds=100)
    assert caught.value.reason is FailureReason.OOM_KILLED
    await sandbox.close()


async def test_a_child_killed_for_memory_leaves_the_sandbox_and_is_reported(stock: PodStock, pool: Pool) -> None:
    name = "small"
    await asyncio.to_thread(stock.make, [name], resources={"limits": {"memory": "64Mi"}})
    sandbox = await acquire_named(pool, stock, name)
    result = await sandbox.run("python3 -c 'x = b\"x\" * 500_000_000'; echo code $?", timeout_seconds=60)
    assert result.text.endswith("code 137\n")
    assert result.oom_killed
    after = await sandbox.run("echo fine", timeout_seconds=20)
    assert (after.text, after.oom_killed) == ("fine\n", False)
    await sandbox.close()


async def test_processes_that_commands_leave_are_reaped(stock: PodStock, pool: Pool) -> None:
    # The shell expands the pattern itself: a pipe would count its own members, or not, as they happen to start.
    count = "set -- /proc/[0-9]*; echo $#"
    stock.take()
    async with pool.claim(stock.image, deadline_seconds=60) as sandbox:
        base = (await sandbox.run(count, timeout_seconds=20)).text
        for _ in range(60):
            await sandbox.run("(true &); (sh -c 'sleep 0.01 &' &)", timeout_seconds=20)
        for _ in range(5):
            await sandbox.run("trap '' TERM; sleep 60 & sleep 60", timeout_seconds=0.1)
        left = base
        for _ in range(100):  # A busy node ends killed processes when it comes to it; a zombie or a leak stays.
            left = (await sandbox.run(count, timeout_seconds=20)).text
            if left == base:
                return
            await asyncio.sleep(0.5)
        names = await sandbox.run("grep -h -e ^Name -e ^State /proc/[0-9]*/status", timeout_seconds=20)
        raise AssertionError(f"{base.strip()} processes before, {left.strip()} after: {names.text}")


async def acquire_named(pool: Pool, stock: PodStock, name: str):  # type: ignore[no-untyped-def]
    """The pod that was made last is not the only free one: claim by an image name of its own."""
    stock.kubectl("annotate", "pod", name, f"sweyard.dev/image={name}:1")
    return await pool.acquire(f"{name}:1", deadline_seconds=60)
