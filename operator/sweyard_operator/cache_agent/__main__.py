"""`python -m sweyard_operator.cache_agent`: runs on every node; reads the environment here and nowhere else."""

import asyncio
import contextlib
import logging
import os
import platform
import random
import signal
import time
from pathlib import Path

import grpc

from sweyard_operator.cache_agent.agent import CacheAgent
from sweyard_operator.cache_agent.auth import PullSecrets
from sweyard_operator.cache_agent.cri import CriRuntime, keeper_of
from sweyard_operator.cache_agent.node_mailbox import ConfigMapMailbox
from sweyard_operator.cache_agent.ownership import Ownership
from sweyard_operator.cache_agent.registry import open_registry
from sweyard_operator.cache_agent.survey import Survey
from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.credentials import load_credentials
from sweyard_operator.errors import ApiError, UnreachableError
from sweyard_operator.transport import HttpTransport

log = logging.getLogger("sweyard.cache_agent")

PASS_SECONDS = 2.0
IDLE_PASS_SECONDS = 10.0
"""With all images there: a thousand nodes then ask the API server a hundred times a second."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


async def run(agent: CacheAgent, stop: asyncio.Event) -> None:
    """Passes until stopped; an outage of the API server or the runtime is waited out."""
    while not stop.is_set():
        try:
            await agent.run_pass()
        except (ApiError, UnreachableError, grpc.aio.AioRpcError) as error:
            log.warning("pass failed, again in %.0f s: %r", PASS_SECONDS, error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), IDLE_PASS_SECONDS if agent.is_idle else PASS_SECONDS)


async def serve() -> None:
    """Assemble the agent from the environment and run it."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    kubeconfig = os.environ.get("KUBECONFIG")
    credentials = load_credentials(Path(kubeconfig) if kubeconfig else None)
    cluster = Cluster(HttpTransport(credentials), Contact(time.monotonic), randomness=random.Random())
    runtime = CriRuntime.connect(os.environ["SWEYARD_CRI_SOCKET"])
    node = os.environ["NODE_NAME"]
    mailbox = ConfigMapMailbox(
        cluster,
        namespace=os.environ["POD_NAMESPACE"],
        cache=os.environ["SWEYARD_CACHE"],
        cache_uid=os.environ["SWEYARD_CACHE_UID"],
        node=node,
    )
    secrets = PullSecrets(Path(os.environ.get("SWEYARD_PULL_SECRETS", "/pull-secrets")))
    registry = open_registry(secrets.find, _ARCHITECTURES.get(platform.machine(), platform.machine()))
    survey = Survey(registry, time.monotonic)
    keeper = keeper_of(os.environ["POD_NAMESPACE"], os.environ["SWEYARD_CACHE"])
    agent = CacheAgent(
        node=node,
        runtime=runtime,
        mailbox=mailbox,
        secrets=secrets,
        ownership=Ownership(keeper, time.monotonic),
        survey=survey,
        clock=time.monotonic,
    )
    try:
        await run(agent, stop)
    finally:
        await agent.close()
        await registry.session.close()
        await runtime.close()
        await cluster.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(serve())
