"""A client that claims sandboxes and holds them until it is killed.

KUBECONFIG=... python -m benchmarks.prove.holder NAMESPACE POOL IMAGE NUMBER
"""

import asyncio
import sys

from sweyard_sandbox.pool.pool import Pool

_CLAIM_SECONDS = 600.0


async def hold(namespace: str, name: str, image: str, count: int) -> None:
    """Says "holding" once it has them all."""
    pool = await Pool.connect(namespace=namespace, name=name)
    await asyncio.gather(*(pool.acquire_pod(image, deadline_seconds=_CLAIM_SECONDS) for _ in range(count)))
    print("holding", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    namespace, name, image, count = sys.argv[1:]
    asyncio.run(hold(namespace, name, image, int(count)))
