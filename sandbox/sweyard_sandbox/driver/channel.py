"""What a runtime provides so that the driver can be used: a byte stream, and a word on why it broke."""

from typing import Protocol

from sweyard_sandbox.errors import InfrastructureError


class ChannelError(Exception):
    """The stream broke; the sandbox may still live."""


class Channel(Protocol):
    """One open stream to a driver."""

    async def send(self, data: bytes) -> None:
        """Send, waiting while the other side does not read. Raises ChannelError."""
        ...

    async def receive(self) -> bytes:
        """Some bytes; empty at the end of the stream. Raises ChannelError."""
        ...

    async def close(self) -> None:
        """Close; safe to call twice."""
        ...


class Connector(Protocol):
    """Opens streams to one sandbox."""

    async def connect(self) -> Channel:
        """A new stream to `sh -c BOOTSTRAP`. Raises ChannelError, or InfrastructureError when it is hopeless."""
        ...

    async def explain(self) -> InfrastructureError | None:
        """Why the sandbox is dead; None while it may live, and a new stream is worth trying."""
        ...
