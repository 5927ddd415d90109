"""PodSandbox: the Sandbox protocol over a claimed pod, which may serve another holder after its reset."""

from collections.abc import Awaitable, Callable

from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.sandbox import DriverSandbox


class PodSandbox(DriverSandbox):
    """`give_back(may_serve_again)` ends this use of the pod."""

    def __init__(self, name: str, client: DriverClient, give_back: Callable[[bool], Awaitable[None]]) -> None:
        super().__init__(name, client, self._end)
        self._give_back = give_back
        self._may_serve_again = True

    def forbid_reuse(self) -> None:
        """Destroy it when it is closed."""
        self._may_serve_again = False

    async def close(self) -> None:
        """Give the pod back; one that failed, or whose holder had to stop, is destroyed."""
        if self.client.link.dead is not None:
            self.forbid_reuse()
        await super().close()

    async def _end(self) -> None:
        await self._give_back(self._may_serve_again)
