"""The routes of one vLLM server in development mode that weight updates use."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from sweyard_api.engine_command import ADAPTER_NAME
from sweyard_trainer.errors import WeightSyncError

RETRY_SECONDS = 1.0


class EngineControl:
    """Calls one server until it answers or `deadline` (of the event loop's clock) has passed."""

    def __init__(self, url: str, http: aiohttp.ClientSession, deadline: float) -> None:
        self.url = url.rstrip("/")
        self._http = http
        self._deadline = deadline

    async def pause(self) -> None:
        """Let requests in flight end, start no others: no completion mixes two weight versions."""
        await self._send("POST", "/pause?mode=wait")

    async def load_from_disk(self, directory: Path) -> None:
        """Every worker reads safetensors in HF layout from a path that it sees too."""
        await self._send(
            "POST", "/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(directory)}}
        )

    async def load_adapter(self, directory: Path) -> None:
        """Put peft's adapters from a path that it sees too in the place of the last ones."""
        body = {"lora_name": ADAPTER_NAME, "lora_path": str(directory), "load_inplace": True}
        await self._send("POST", "/v1/load_lora_adapter", body)

    async def forget_prefixes(self) -> None:
        """Cached keys and values are of the old weights."""
        await self._send("POST", "/reset_prefix_cache")

    async def name_version(self, version: int) -> None:
        """What it shall call its weights."""
        await self._send("POST", "/update_weight_version", {"new_version": str(version)})

    async def resume(self) -> None:
        """Take requests again."""
        await self._send("POST", "/resume")

    async def confirm(self, version: int) -> None:
        """Raises WeightSyncError if it serves another version or is still paused."""
        found = (await self._send("GET", "/weight_info")).get("weight_version")
        paused = (await self._send("GET", "/is_paused")).get("is_paused")
        if str(found) != str(version) or paused:
            raise WeightSyncError(
                f"{self.url} serves weights {found} (paused: {paused}) after version {version} was sent"
            )

    async def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Try again while nobody listens (the server is starting); an answer that is no success ends it."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await self._once(method, path, body, self._deadline - loop.time())
            except (aiohttp.ClientConnectionError, TimeoutError) as error:
                if loop.time() + RETRY_SECONDS >= self._deadline:
                    said = f"{type(error).__name__} {error}".strip()
                    raise WeightSyncError(f"{self.url}{path} did not answer before the deadline: {said}") from error
            await asyncio.sleep(RETRY_SECONDS)

    async def _once(self, method: str, path: str, body: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=max(seconds, 0.001))
        async with self._http.request(method, self.url + path, json=body, timeout=timeout) as response:
            text = await response.text()
            if response.status != 200:
                raise WeightSyncError(f"{self.url}{path} answered {response.status}: {text[:300]}")
            is_json = text and response.content_type == "application/json"
            reply = await response.json() if is_json else {}  # some routes answer with a sentence
            return reply if isinstance(reply, dict) else {}
