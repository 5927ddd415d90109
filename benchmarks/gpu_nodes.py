"""Simulated nodes with GPUs: what KWOK's nodes lack is written into their status."""

from sweyard_sandbox.pool.api import MERGE_PATCH, ApiClient

GPU = "nvidia.com/gpu"


async def give_gpus(api: ApiClient, num_nodes: int, gpus_per_node: int) -> None:
    """The first nodes have so many from now on. Raises RuntimeError if there are fewer nodes."""
    nodes = (await api.request("GET", "/api/v1/nodes"))["items"]
    if len(nodes) < num_nodes:
        raise RuntimeError(f"{len(nodes)} nodes are fewer than the {num_nodes} that need GPUs: raise --nodes")
    for node in nodes[:num_nodes]:
        amounts = {GPU: str(gpus_per_node), "memory": "2Ti", "cpu": "192"}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        path = f"/api/v1/nodes/{node['metadata']['name']}/status"
        await api.request("PATCH", path, body=status, content_type=MERGE_PATCH)
