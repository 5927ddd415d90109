"""A sandbox without a root of its own: the working directory's name is translated to where its copy lies."""

import re
import socket
from collections.abc import Awaitable, Callable

from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.runtime import DEFAULT_OUTPUT_CAP_BYTES, Result


class TranslatingSandbox(DriverSandbox):
    """Replaces `named` by `actual` in paths and commands; output is left as it is."""

    def __init__(
        self, name: str, client: DriverClient, destroy: Callable[[], Awaitable[None]], named: str, actual: str
    ) -> None:
        super().__init__(name, client, destroy)
        self._pattern = re.compile(rf"(?<![\w/.-]){re.escape(named)}(?![\w-])")
        self._actual = actual

    async def run(
        self,
        command: str,
        *,
        timeout_seconds: float,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        output_cap_bytes: int = DEFAULT_OUTPUT_CAP_BYTES,
    ) -> Result:
        """Run the translated command."""
        return await super().run(
            self._translate(command),
            timeout_seconds=timeout_seconds,
            cwd=None if cwd is None else self._translate(cwd),
            env=env,
            user=user,
            output_cap_bytes=output_cap_bytes,
        )

    async def read(self, path: str, *, cap_bytes: int = 64_000_000) -> bytes:
        """Read the translated path."""
        return await super().read(self._translate(path), cap_bytes=cap_bytes)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write the translated path."""
        await super().write(self._translate(path), data, mode=mode)

    async def listen(self) -> socket.socket:
        """See ListensInside; its network is this machine's."""
        return socket.create_server(("127.0.0.1", 0))

    def _translate(self, text: str) -> str:
        return self._pattern.sub(lambda _: self._actual, text)
