"""The `sandbox` and `runtime` fixtures of the contract: one parameter for each runtime that has a real shell.

test_every_runtime.py adds the fake, which has none, and pods whose image is busybox alone.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.sandbox.contract.busybox_image import push_busybox_image
from tests.sandbox.contract.host_image import import_host_image, push_host_image
from tests.sandbox.contract.pod_stock import PodStock, fresh_namespace
from tests.sandbox.pool_object import make_pool

from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.pool.credentials import load_kubeconfig
from sweyard_sandbox.pool.pool import Pool
from sweyard_sandbox.runtime import Runtime, Sandbox
from sweyard_sandbox.runtimes.docker.runtime import DockerRuntime
from sweyard_sandbox.runtimes.fake import FakeRuntime
from sweyard_sandbox.runtimes.kubernetes.runtime import KubernetesRuntime
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime

RUNTIMES = [
    pytest.param("local", id="local"),
    pytest.param("unisolated", id="unisolated"),
    pytest.param("kubernetes", id="kubernetes", marks=pytest.mark.kubelet),
    pytest.param("docker", id="docker", marks=pytest.mark.docker),
]
STOCKS = {"kubernetes": "stock", "busybox": "busybox_stock"}
"""Runtime to the fixture that makes its pods."""
POOL = "contract"


class StockedRuntime(KubernetesRuntime):
    """Claims pods that the stock provides, as the operator would."""

    def __init__(self, pool: Pool, stock: PodStock) -> None:
        super().__init__(pool)
        self.pool = pool
        self._stock = stock

    async def acquire(self, image: str, *, deadline_seconds: float) -> Sandbox:
        await asyncio.to_thread(self._stock.take)
        return await super().acquire(image, deadline_seconds=deadline_seconds)


@pytest.fixture(scope="session")
def stock(cluster: TestCluster) -> Iterator[PodStock]:
    image = push_host_image(cluster.tool.spec(cluster.name).addresses.registry)
    with fresh_namespace(cluster) as namespace:
        make_pool(cluster, namespace, POOL)
        yield PodStock(cluster, namespace, POOL, image)


@pytest.fixture(scope="session")
def busybox_stock(cluster: TestCluster, stock: PodStock) -> PodStock:
    """Pods of the same pool whose image has busybox and nothing else."""
    image = push_busybox_image(cluster.tool.spec(cluster.name).addresses.registry)
    return PodStock(cluster, stock.namespace, stock.pool, image, prefix="busybox")


@pytest.fixture(scope="session")
def docker_image() -> str:
    """In an engine that answers: `make test-docker` asks for it."""
    return import_host_image()


@pytest.fixture(params=RUNTIMES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def image(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind in STOCKS:
        return str(request.getfixturevalue(STOCKS[kind]).image)
    if kind == "docker":
        return str(request.getfixturevalue("docker_image"))
    tree = tmp_path / "image"
    tree.mkdir()
    (tree / "a.txt").write_text("hello\n")
    return f"dir:{tree}"


@pytest.fixture
async def runtime(kind: str, image: str, request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    if kind in STOCKS:
        stock: PodStock = request.getfixturevalue(STOCKS[kind])
        made: Runtime = StockedRuntime(await connect(stock), stock)
    elif kind == "docker":
        made = DockerRuntime()
    elif kind == "fake":
        made = FakeRuntime(files={"/testbed/a.txt": b"hello\n"})
    elif kind == "local":
        made = LocalRuntime()
    else:
        made = LocalRuntime(LocalConfig(allow_unisolated=True))
        made._isolated = False  # as on a system without namespaces
    yield made
    await made.close()


async def connect(stock: PodStock) -> Pool:
    credentials = load_kubeconfig(stock.cluster.kubeconfig)
    return await Pool.connect(
        namespace=stock.namespace, name=POOL, credentials=credentials, environment={}, rng=random.Random()
    )


@pytest.fixture
async def sandbox(runtime: Runtime, image: str) -> AsyncIterator[Sandbox]:
    async with await runtime.acquire(image, deadline_seconds=60) as made:
        yield made


@pytest.fixture
def is_root(kind: str) -> bool:
    return kind in (*STOCKS, "docker") or os.geteuid() == 0
