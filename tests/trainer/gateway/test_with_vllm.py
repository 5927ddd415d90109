"""Gateway and engine client against a real vLLM server: what is recorded is what the engine did."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from sweyard_api.resolve import resolve
from sweyard_sandbox.agents.protocol import FinishReason, Message
from sweyard_trainer.engine.engine import EngineError
from sweyard_trainer.engine.vllm import VllmEngine
from sweyard_trainer.gateway.client import InProcessGateway
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

TEMPERATURE = 0.7
SPEC: dict[str, Any] = {
    "model": {"scratch": {}},
    "tasks": {"train": {"dataset": "d"}},
    "trainer": {"device": "cpu", "dtype": "float32"},
    "rollout": {"maxPromptTokens": 512, "maxResponseTokens": 512},
}


@pytest.fixture(scope="module")
def model_directory(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=400,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.1,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def vllm_url(serve_vllm: Callable[..., AbstractContextManager[str]], model_directory: Path) -> Iterator[str]:
    with serve_vllm(resolve(SPEC), model_directory) as url:
        yield url


async def test_recorded_ids_are_the_engines_and_logprobs_the_models(
    vllm_url: str, model_directory: Path, renderer: ChatRenderer
) -> None:
    engine = VllmEngine(vllm_url)
    await engine.check()
    client = InProcessGateway(Gateway(renderer, Limits(512, 512, 24)), [engine], new_token=iter("abcdef").__next__)
    await client.use_weights(0)
    sessions = [await client.open_session(str(n), temperature=TEMPERATURE, seed=n) for n in range(6)]

    async def converse(session: Any) -> None:
        messages = [Message("user", "hello world")]
        for turn in range(3):
            reply = await session.chat(messages)
            messages += [Message("assistant", reply.content), Message("tool", f"result {turn}")]

    await asyncio.gather(*map(converse, sessions))
    records = [await client.finish_session(str(n)) for n in range(6)]
    await client.close()
    model = Qwen3ForCausalLM.from_pretrained(model_directory, dtype=torch.float32).eval()
    for record in records:
        (segment,) = record.segments
        assert record.num_forks == 0
        with torch.inference_mode():
            logits = model(torch.tensor(segment.token_ids.astype("int64"))[None]).logits[0, :-1].float()
        scores = torch.log_softmax(logits / TEMPERATURE, dim=-1)
        expected = scores.gather(-1, torch.tensor(segment.token_ids[1:].astype("int64"))[:, None])[:, 0].numpy()
        sampled = segment.loss_mask[1:]
        assert sampled.sum() >= 3
        assert segment.logprobs[1:][sampled] == pytest.approx(expected[sampled], abs=5e-3)
    assert len({tuple(record.segments[0].token_ids.tolist()) for record in records}) == 6


async def test_the_same_seed_gives_the_same_reply(vllm_url: str) -> None:
    engine = VllmEngine(vllm_url)
    options: dict[str, Any] = {"max_tokens": 16, "temperature": 1.0, "stop_token_ids": [], "cache_salt": "s"}
    first = await engine.complete([5, 6, 7], seed=1, **options)
    again = await engine.complete([5, 6, 7], seed=1, **options)
    other = await engine.complete([5, 6, 7], seed=2, **options)
    await engine.close()
    assert first.token_ids == again.token_ids != other.token_ids
    assert first.finish_reason is FinishReason.LENGTH


async def test_what_is_told_of_a_reply_is_what_a_whole_one_is(vllm_url: str) -> None:
    engine = VllmEngine(vllm_url)
    options: dict[str, Any] = {"max_tokens": 16, "temperature": 1.0, "stop_token_ids": [], "cache_salt": "s", "seed": 3}
    pieces: list[tuple[int, ...]] = []
    streamed = await engine.complete([5, 6, 7], **options, on_tokens=lambda ids: pieces.append(tuple(ids)))
    whole = await engine.complete([5, 6, 7], **options)
    await engine.close()
    assert tuple(token for piece in pieces for token in piece) == streamed.token_ids == whole.token_ids
    assert streamed.logprobs == pytest.approx(whole.logprobs, abs=1e-5)
    assert (streamed.finish_reason, streamed.weight_version) == (whole.finish_reason, whole.weight_version)
    assert len(pieces) > 4


async def test_a_prompt_longer_than_the_context_is_not_retried_for_ever(vllm_url: str) -> None:
    engine = VllmEngine(vllm_url)
    with pytest.raises(EngineError, match="answered 400"):
        await engine.complete([5] * 2000, max_tokens=5, temperature=1.0, stop_token_ids=[], seed=0, cache_salt="s")
    await engine.close()
