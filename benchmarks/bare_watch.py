"""The least that a controller of pods can do: `python -m benchmarks.bare_watch` lists them, parses every event of their
watch, and does nothing with it. A baseline for the CPU time of the operator."""

import asyncio
import os
import random
import time
from pathlib import Path

from sweyard_api.constants import LABEL_COMPONENT
from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.credentials import load_credentials
from sweyard_operator.resources import PODS
from sweyard_operator.transport import HttpTransport


async def watch_pods(kubeconfig: Path) -> None:
    """Until killed."""
    transport = HttpTransport(load_credentials(kubeconfig))
    cluster = Cluster(transport, Contact(time.monotonic), randomness=random.Random())
    while True:
        _, version = await cluster.list(PODS, None, label_selector=LABEL_COMPONENT)
        async for _ in cluster.watch(PODS, None, label_selector=LABEL_COMPONENT, resource_version=version):
            pass


if __name__ == "__main__":
    asyncio.run(watch_pods(Path(os.environ["KUBECONFIG"])))
