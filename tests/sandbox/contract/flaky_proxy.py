"""A TCP proxy between client and API server that does what networks do."""

import asyncio
import contextlib
import time


class FlakyProxy:
    """Forwards bytes; drops connections that are idle too long, or all of them on demand."""

    def __init__(self, host: str, port: int, idle_seconds: float = 1e9) -> None:
        self.port = 0
        self.num_idle_drops = 0
        self.is_down = False
        self.is_frozen = False
        """Connections stay open and nothing passes, as when a machine between has lost its power."""
        self._target = (host, port)
        self._idle_seconds = idle_seconds
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def drop_all(self) -> None:
        for task in list(self._open):
            task.cancel()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.drop_all()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if not self.is_down:
                await self._forward(reader, writer)
        except (asyncio.CancelledError, OSError):
            pass
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        last = [time.monotonic()]

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                while self.is_frozen:
                    await asyncio.sleep(0.05)
                last[0] = time.monotonic()
                sink.write(data)
                await sink.drain()

        copies = [asyncio.create_task(copy(reader, far_writer)), asyncio.create_task(copy(far_reader, writer))]
        try:
            while not any(task.done() for task in copies):
                await asyncio.wait(copies, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
                if time.monotonic() - last[0] > self._idle_seconds:
                    self.num_idle_drops += 1
                    break
        finally:
            for task in copies:
                task.cancel()
            with contextlib.suppress(OSError):
                await asyncio.gather(*copies, return_exceptions=True)
            far_writer.transport.abort()
