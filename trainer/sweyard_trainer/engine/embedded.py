"""The embedded engine: a transformers model in this process, for laptops and tests.

Requests that wait together are generated together. transformers' continuous batching was measured at 64 requests of a
0.9 M-parameter model on two CPU cores: 47 tokens a second against 2,000 with plain batches, so plain batches it is.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.engine.decoding import Prompt, decode
from sweyard_trainer.engine.engine import Completion, OnTokens

SMALL_MODEL_PARAMETERS = 10_000_000
MOST_LINGER_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class _Request:
    prompt: Prompt
    future: asyncio.Future[Completion]


class TransformersEngine:
    """One model on one device, run by one thread. Belongs to the event loop that first uses it."""

    def __init__(self, model: PreTrainedModel, *, max_batch: int = 64, linger_seconds: float = 0.02) -> None:
        self._model = model.eval()
        self._max_batch = max_batch
        self._linger_seconds = linger_seconds
        self._version = 0
        self._waiting: list[_Request] = []
        self._arrived = asyncio.Event()
        self._loop_task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")

    @classmethod
    def load(cls, directory: Path, *, max_batch: int = 64) -> "TransformersEngine":
        """From a directory in HF layout, in float32: logprobs are compared with the trainer's."""
        return cls(AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32), max_batch=max_batch)

    @property
    def name(self) -> str:
        return "transformers"

    @property
    def trouble(self) -> str:
        return ""

    async def check(self) -> None:
        await self.complete([0], max_tokens=1, temperature=1.0, stop_token_ids=[], seed=0, cache_salt="")

    async def weight_version(self) -> int:
        return self._version

    async def load_weights(self, directory: Path, version: int) -> None:
        """The generating thread loads, so no completion sees half of the old weights."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._load, directory, version)

    async def complete(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        stop_token_ids: Sequence[int],
        seed: int,
        cache_salt: str,
        routing_from: int = 0,
        on_tokens: OnTokens | None = None,
    ) -> Completion:
        if self._loop_task is None:
            self._loop_task = asyncio.create_task(self._serve(), name="embedded-engine")
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        prompt = Prompt(tuple(prompt_ids), max_tokens, temperature, tuple(stop_token_ids), seed)
        self._waiting.append(_Request(prompt, future))
        self._arrived.set()
        return await future

    async def close(self) -> None:
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.gather(self._loop_task, return_exceptions=True)
        self._thread.shutdown(wait=True)

    async def _serve(self) -> None:
        while True:
            await self._arrived.wait()
            await self._gather()
            batch, self._waiting = self._waiting[: self._max_batch], self._waiting[self._max_batch :]
            if not self._waiting:
                self._arrived.clear()
            await self._answer([request for request in batch if not request.future.done()])

    async def _gather(self) -> None:
        """Wait while more requests come: one large batch costs far less than several small ones."""
        seen, waited = 0, 0.0
        while seen < len(self._waiting) < self._max_batch and waited < MOST_LINGER_SECONDS:
            seen, waited = len(self._waiting), waited + self._linger_seconds
            await asyncio.sleep(self._linger_seconds)

    async def _answer(self, batch: list[_Request]) -> None:
        if not batch:
            return
        loop = asyncio.get_running_loop()
        try:
            completions = await loop.run_in_executor(self._thread, self._generate, batch)
        except (RuntimeError, ValueError, IndexError) as error:
            for request in batch:
                if not request.future.done():
                    request.future.set_exception(error)
            return
        for request, completion in zip(batch, completions, strict=True):
            if not request.future.done():
                request.future.set_result(completion)

    @contextlib.contextmanager
    def _few_threads(self) -> Iterator[None]:
        """The steps of a small model are too short to share between cores; the sandboxes can use the others.

        Undone after each batch, since for MKL the number is that of the whole process: the learner's, too.
        """
        before = torch.get_num_threads()
        if self._model.num_parameters() < SMALL_MODEL_PARAMETERS:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _load(self, directory: Path, version: int) -> None:
        tensors: dict[str, torch.Tensor] = {}
        for file in sorted(directory.glob("*.safetensors")):
            tensors |= load_file(file)
        missing, unexpected = self._model.load_state_dict(tensors, strict=False)
        tied = set(self._model.all_tied_weights_keys)
        if unexpected or set(missing) - tied:
            raise ValueError(f"{directory}: weights do not fit the model: missing {missing}, unexpected {unexpected}")
        self._version = version

    def _generate(self, batch: list[_Request]) -> list[Completion]:
        with self._few_threads():
            continuations = decode(self._model, [request.prompt for request in batch])
        return [
            Completion(
                tuple(continuation.token_ids),
                tuple(continuation.logprobs),
                self._version,
                FinishReason.STOP if continuation.is_stopped else FinishReason.LENGTH,
            )
            for continuation in continuations
        ]
