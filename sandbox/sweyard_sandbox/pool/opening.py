"""The stream to a claimed pod: tried again while the pod lives, so that an API server's restart costs no sandbox."""

import asyncio

from sweyard_sandbox.driver.channel import ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.runtimes.kubernetes.connector import PodConnector

_TRIES = 4
_FIRST_PAUSE_SECONDS = 0.2


async def open_stream(client: DriverClient, connector: PodConnector) -> None:
    """Raises ChannelError when the pod is dead or its stream does not open, InfrastructureError when abandoned."""
    for attempt in range(_TRIES):
        try:
            await client.open()
        except ChannelError as error:
            if attempt == _TRIES - 1:
                raise
            if (death := await connector.explain()) is not None:
                raise ChannelError(str(death)) from error
        else:
            return
        await asyncio.sleep(_FIRST_PAUSE_SECONDS * 2**attempt)
