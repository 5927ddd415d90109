"""The routes of one vLLM server in development mode that weight updates use."""

from pathlib import Path
from typing import Any, Literal

import aiohttp

from sweyard_api.engine_command import ADAPTER_NAME
from sweyard_trainer.errors import EngineAwayError, TakesNoWeightsError, WeightSyncError

REMEDY = (
    "start vLLM with VLLM_SERVER_DEV_MODE=1 and the run's volume mounted where the trainer has it; or, for an external "
    "engine, let inference.fixedWeights allow it to keep the weights that it has"
)


class EngineControl:
    """Calls one server, each route once; who calls sets the deadline."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

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

    async def sleep(self) -> None:
        """Let go of all GPU memory, weights included; what is under way by now is nobody's, and ends."""
        await self._send("POST", "/sleep?level=2&mode=abort")

    async def wake(self, what: Literal["weights", "kv_cache"]) -> None:
        """Take that memory again, without its content; once it has all, it takes requests."""
        await self._send("POST", f"/wake_up?tags={what}")

    async def served_version(self) -> str:
        """What it calls the weights that it samples with; `paused` if it does not sample."""
        await self._send("GET", "/health")
        version = (await self._send("GET", "/weight_info")).get("weight_version")
        return "paused" if (await self._send("GET", "/is_paused")).get("is_paused") else str(version)

    async def served_models(self) -> None:
        """Ask only if it answers; what every OpenAI-compatible server can."""
        await self._send("GET", "/v1/models")

    async def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Raises EngineAwayError if nobody answers, WeightSyncError for an answer that is no success, of which
        TakesNoWeightsError for a route that is not there.
        """
        untimed = aiohttp.ClientTimeout(total=None)
        try:
            async with (
                aiohttp.ClientSession(headers=self._headers, timeout=untimed) as http,
                http.request(method, self.url + path, json=body) as response,
            ):
                text = await response.text()
                if response.status == 404:
                    raise TakesNoWeightsError(f"{self.url} takes no weights, {path} is not there: {REMEDY}")
                if response.status != 200:
                    raise WeightSyncError(f"{self.url}{path} answered {response.status}: {text[:300]}")
                is_json = text and response.content_type == "application/json"
                reply = await response.json() if is_json else {}  # some routes answer with a sentence
                return reply if isinstance(reply, dict) else {}
        except aiohttp.ClientError as error:
            raise EngineAwayError(f"{self.url}{path} did not answer: {type(error).__name__} {error}") from error
