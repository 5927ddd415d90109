"""What the checks are about, from the API server. All raise UserError where it refuses or does not answer."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from kubernetes import client

from sweyard_api.constants import LABEL_COMPONENT
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.doctor.finding import Finding
from sweyard_cli.doctor.permissions import RIGHTS, Right
from sweyard_cli.doctor.version import check_version
from sweyard_cli.errors import UserError
from sweyard_operator.observe.image_cache import usable_nodes

_LEASES = "kube-node-lease"
_DNS_NAMESPACE, _DNS_SERVICE = "kube-system", "kube-dns"


def read_version(connection: Connection) -> Finding:
    """As judged."""
    with told_plainly("the API server's version cannot be read"):
        found = client.VersionApi(connection.api_client).get_code()
    return check_version(found.major, found.minor)


def read_permissions(connection: Connection) -> dict[Right, bool]:
    """Of the user, by the API server's own review of each right."""
    api = client.AuthorizationV1Api(connection.api_client)
    allowed = {}
    with told_plainly("rights cannot be reviewed"):
        for verb, group, resource in RIGHTS:
            name, _, subresource = resource.partition("/")
            attributes = {"namespace": connection.namespace, "verb": verb, "group": group, "resource": name}
            spec = {"resourceAttributes": {**attributes, "subresource": subresource}}
            answer = api.create_self_subject_access_review({"spec": spec})
            allowed[verb, group, resource] = bool(answer.status.allowed)
    return allowed


def read_clocks(connection: Connection, nodes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, datetime], datetime]:
    """When Ready nodes renewed their Leases, by their clocks; the time by the API server's."""
    api = client.CoordinationV1Api(connection.api_client)
    with told_plainly("Leases of nodes cannot be listed"):
        leases, _, headers = api.list_namespaced_lease_with_http_info(_LEASES)
    ready = set(usable_nodes(nodes, {}))
    renewed = {
        lease.metadata.name: lease.spec.renew_time
        for lease in leases.items
        if lease.metadata.name in ready and lease.spec.renew_time is not None
    }
    return renewed, parsedate_to_datetime(headers["Date"])


def read_dns(connection: Connection) -> list[dict[str, Any]]:
    """EndpointSlices of the cluster's DNS."""
    api = client.DiscoveryV1Api(connection.api_client)
    with told_plainly("EndpointSlices of the cluster's DNS cannot be listed"):
        found = api.list_namespaced_endpoint_slice(
            _DNS_NAMESPACE, label_selector=f"kubernetes.io/service-name={_DNS_SERVICE}"
        )
    return _plain(connection, found)


def read_storage_classes(connection: Connection) -> list[dict[str, Any]]:
    """All of them."""
    with told_plainly("storage classes cannot be listed"):
        return _plain(connection, client.StorageV1Api(connection.api_client).list_storage_class())


def read_claims(connection: Connection) -> list[dict[str, Any]]:
    """PersistentVolumeClaims of the namespace."""
    core = client.CoreV1Api(connection.api_client)
    with told_plainly(f"volumes of namespace {connection.namespace} cannot be listed"):
        return _plain(connection, core.list_namespaced_persistent_volume_claim(connection.namespace))


def read_runtime_classes(connection: Connection) -> list[str]:
    """Their names."""
    with told_plainly("runtime classes cannot be listed"):
        found = _plain(connection, client.NodeV1Api(connection.api_client).list_runtime_class())
    return [str(one["metadata"]["name"]) for one in found]


def read_operator_pods(connection: Connection) -> list[dict[str, Any]]:
    """Of all namespaces."""
    core = client.CoreV1Api(connection.api_client)
    with told_plainly("the operator's pods cannot be listed"):
        return _plain(connection, core.list_pod_for_all_namespaces(label_selector=f"{LABEL_COMPONENT}=operator"))


def read_operator_image(connection: Connection) -> str:
    """Of a running operator. Raises UserError without one."""
    pods = read_operator_pods(connection)
    if not pods:
        raise UserError(
            "no operator runs whose image pods could be made from to try network policies: install the chart, or "
            "give --image with python in it"
        )
    return str(pods[0]["spec"]["containers"][0]["image"])


def _plain(connection: Connection, listed: Any) -> list[dict[str, Any]]:
    return list(connection.api_client.sanitize_for_serialization(listed)["items"])
