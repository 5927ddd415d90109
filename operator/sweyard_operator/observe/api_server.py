"""Where the API server is reached: what a trainer's NetworkPolicy must let through."""

from collections.abc import Iterable

from sweyard_operator.build.run_context import ApiServerEndpoint
from sweyard_operator.cluster import Cluster
from sweyard_operator.resources import ENDPOINT_SLICES, SERVICES, Manifest

_NAMESPACE, _SERVICE = "default", "kubernetes"


async def observe_api_server(cluster: Cluster) -> tuple[ApiServerEndpoint, ...]:
    """Address of the Service and of each endpoint behind it."""
    service = await cluster.get(SERVICES, _NAMESPACE, _SERVICE)
    selector = f"kubernetes.io/service-name={_SERVICE}"
    slices, _ = await cluster.list(ENDPOINT_SLICES, _NAMESPACE, label_selector=selector)
    return parse_api_server(service, slices)


def parse_api_server(service: Manifest, slices: Iterable[Manifest]) -> tuple[ApiServerEndpoint, ...]:
    """Service addresses, then endpoints, each once and in a fixed order."""
    spec = service["spec"]
    found = {
        ApiServerEndpoint(address, int(port["port"]))
        for address in spec.get("clusterIPs") or [spec["clusterIP"]]
        for port in spec["ports"]
    }
    for part in slices:
        for endpoint in part.get("endpoints") or ():
            for address in endpoint["addresses"]:
                found |= {ApiServerEndpoint(address, int(port["port"])) for port in part.get("ports") or ()}
    return tuple(sorted(found, key=lambda endpoint: (endpoint.address, endpoint.port)))
