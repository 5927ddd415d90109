"""PodConnector: streams to the driver in one claimed pod, and the pod's own word on why it died."""

from sweyard_api.constants import CONTAINER_SANDBOX
from sweyard_sandbox.driver.channel import Channel
from sweyard_sandbox.driver.wire import BOOTSTRAP
from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.pool.api import ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.pods import explain_death
from sweyard_sandbox.runtimes.kubernetes.exec_channel import open_exec

HEARTBEAT_SECONDS = 20.0
"""Below the shortest idle limit that is usual on the way: 60 s in cloud load balancers."""

MAX_OPENING = 32
"""Streams that one process opens at a time: a node spends about 50 ms of processor time on each."""


class PodConnector:
    """Knows the pod by UID: a new pod of the same name is not taken for it."""

    def __init__(
        self, api: ApiClient, namespace: str, name: str, uid: str, *, heartbeat_seconds: float = HEARTBEAT_SECONDS
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._uid = uid
        self._heartbeat_seconds = heartbeat_seconds

    async def connect(self) -> Channel:
        """A new exec stream."""
        return await open_exec(
            self._api,
            self._namespace,
            self._name,
            CONTAINER_SANDBOX,
            ["/bin/sh", "-c", BOOTSTRAP],
            heartbeat_seconds=self._heartbeat_seconds,
        )

    async def explain(self) -> InfrastructureError | None:
        """Read the pod; None while it lives, or while the API server cannot be asked."""
        try:
            pod = await self._api.request("GET", f"/api/v1/namespaces/{self._namespace}/pods/{self._name}")
        except UnreachableError:
            return None
        except ApiError as error:
            return explain_death(None, self._uid) if error.status == 404 else None
        return explain_death(pod, self._uid)
