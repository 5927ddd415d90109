"""PodConnector: streams to the driver in one claimed pod, and the pod's own word on why it died."""

import asyncio
import contextlib

from sweyard_api.constants import CONTAINER_SANDBOX
from sweyard_sandbox.driver.channel import Channel, ChannelError
from sweyard_sandbox.driver.wire import BOOTSTRAP
from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.pool.api import ApiClient, ApiError, UnreachableError
from sweyard_sandbox.pool.pods import explain_death
from sweyard_sandbox.runtimes.kubernetes.exec_channel import open_exec

HEARTBEAT_SECONDS = 20.0
"""Below the shortest idle limit that is usual on the way: 60 s in cloud load balancers."""

MAX_OPENING = 32
"""Streams that one process opens at a time: a node spends about 50 ms of processor time on each."""

_END_SECONDS = 5.0


class PodConnector:
    """Knows the pod by UID: a new pod of the same name is not taken for it."""

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        name: str,
        uid: str,
        *,
        container_id: str = "",
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._uid = uid
        self._container_id = container_id
        self._heartbeat_seconds = heartbeat_seconds

    async def connect(self) -> Channel:
        """A new exec stream."""
        return await self._execute(BOOTSTRAP)

    async def end_first_process(self) -> bool:
        """Ask process 1 to end, by a stream of its own: what ran in the sandbox may have harmed the driver's.

        False if it certainly did not hear of it.
        """
        try:
            channel = await self._execute("kill -s TERM 1")
        except (ChannelError, InfrastructureError):
            return False
        with contextlib.suppress(ChannelError, InfrastructureError, TimeoutError):  # it breaks with the container
            async with asyncio.timeout(_END_SECONDS):
                while await channel.receive():
                    pass
        await channel.close()
        return True

    async def _execute(self, script: str) -> Channel:
        return await open_exec(
            self._api,
            self._namespace,
            self._name,
            CONTAINER_SANDBOX,
            ["/bin/sh", "-c", script],
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
        return explain_death(pod, self._uid, self._container_id)
