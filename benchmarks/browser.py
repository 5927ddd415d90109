"""A headless Chromium by its DevTools protocol: enough to open pages, ask them things and take pictures of them."""

import asyncio
import base64
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_START_SECONDS = 300
_WAIT_SECONDS = 300
_POLL_SECONDS = 0.01
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-quic",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--remote-debugging-port=0", "about:blank",
)  # fmt: skip


class PageError(RuntimeError):
    """A script of the page failed, or what was waited for did not come."""


@dataclass(slots=True)
class Page:
    """One tab."""

    socket: aiohttp.ClientWebSocketResponse
    complaints: list[str] = field(default_factory=list)
    """What the page wrote to its console as an error or a warning, and what the browser did about its policy."""
    _answers: dict[int, asyncio.Future[Any]] = field(default_factory=dict)
    _sent: int = 0
    _loaded: "asyncio.Future[None] | None" = None

    async def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol."""
        self._sent += 1
        answer = self._answers[self._sent] = asyncio.get_running_loop().create_future()
        await self.socket.send_json({"id": self._sent, "method": method, "params": parameters})
        return await asyncio.wait_for(answer, _WAIT_SECONDS)

    async def ask(self, script: str) -> Any:
        """The value of an expression, awaited. Raises PageError."""
        answer = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            told = answer["exceptionDetails"]
            raise PageError(f"{script}: {told.get('exception', {}).get('description') or told['text']}")
        return answer["result"].get("value")

    async def wait(self, script: str) -> None:
        """Until an expression is true, as an element is. Raises PageError."""
        end = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < end:
            if await self.ask(f"Boolean({script})"):
                return
            await asyncio.sleep(_POLL_SECONDS)
        raise PageError(f"{script} did not become true")

    async def open(self, url: str) -> None:
        """Until it is loaded: what is asked of a document that is being replaced may never be answered."""
        loaded = self._loaded = asyncio.get_running_loop().create_future()
        answer = await self.call("Page.navigate", url=url)
        if "loaderId" in answer:  # another document, and not only another place in this one
            await asyncio.wait_for(loaded, _WAIT_SECONDS)

    async def resize(self, width: int, height: int) -> None:
        """The window, in CSS pixels."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def prefer(self, scheme: str) -> None:
        """light or dark."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def press(self, key: str) -> None:
        """One key."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}))

    async def picture(self, path: Path) -> None:
        """Of what the window shows, as PNG."""
        path.write_bytes(base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"]))

    async def listen(self) -> None:
        """Take in answers and complaints until the tab is closed."""
        async for message in self.socket:
            told = json.loads(message.data)
            if "id" in told:
                answer = self._answers.pop(told["id"])
                if "error" in told:
                    answer.set_exception(PageError(told["error"]["message"]))
                else:
                    answer.set_result(told["result"])
            elif told["method"] == "Page.loadEventFired":
                if self._loaded is not None and not self._loaded.done():
                    self._loaded.set_result(None)
            elif told["method"] in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                self._hear(told["params"])

    def _hear(self, told: dict[str, Any]) -> None:
        entry = told.get("entry") or told
        if entry.get("level", entry.get("type")) not in ("info", "log", "debug", "verbose"):
            self.complaints.append(json.dumps(entry)[:500])


@asynccontextmanager
async def browse(program: str | None = None) -> AsyncIterator[Page]:
    """A tab of a browser of its own. Raises PageError where there is no Chromium."""
    found = program or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        raise PageError(f"none of {', '.join(PROGRAMS)} is on the path: install Debian's package chromium")
    with tempfile.TemporaryDirectory(prefix="sweyard-browser-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            found, f"--user-data-dir={profile}", *_FLAGS,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            async with aiohttp.ClientSession() as session, _tab(session, Path(profile)) as page:
                yield page
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


@asynccontextmanager
async def _tab(session: aiohttp.ClientSession, profile: Path) -> AsyncIterator[Page]:
    port = await _port(profile / "DevToolsActivePort")
    async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
        [tab, *_] = [entry for entry in await answer.json() if entry["type"] == "page"]
    async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
        page = Page(socket)
        listening = asyncio.create_task(page.listen())
        for domain in ("Page", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        try:
            yield page
        finally:
            listening.cancel()


async def _port(file: Path) -> int:
    """The browser writes it when it listens."""
    async with asyncio.timeout(_START_SECONDS):
        while not (file.exists() and file.read_text().strip()):
            await asyncio.sleep(_POLL_SECONDS)
    return int(file.read_text().split()[0])
