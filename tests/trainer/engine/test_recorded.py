"""A recording that is replayed through the gateway gives itself."""

import numpy as np
import pytest
from tests.trainer.gateway.conftest import CHATML, make_tokenizer

from sweyard_sandbox.agents.protocol import Message
from sweyard_trainer.engine.engine import Engine, EngineError
from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.engine.recorded import RecordedEngine
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits, SessionRecord

ASKED = [["hello", "world", "again"], ["hello", "other"]]
"""Two histories that begin alike: the second one forks."""


@pytest.fixture(scope="module")
def renderer() -> ChatRenderer:
    return ChatRenderer(make_tokenizer(CHATML))


async def talk(renderer: ChatRenderer, engine: Engine, seed: int) -> SessionRecord:
    gateway = Gateway(renderer, Limits(200, 400, 40))
    await gateway.use_engines([engine], 3)
    gateway.create_session("a", "key", temperature=1.0, seed=seed)
    for questions in ASKED:
        messages: list[Message] = []
        for question in questions:
            messages.append(Message("user", question))
            answer = await gateway.chat("a", messages)
            messages.append(Message("assistant", answer.reply.content))
    return gateway.finish_session("a")


async def test_a_replayed_session_is_the_recorded_one(renderer: ChatRenderer) -> None:
    engine = FakeEngine(lambda prompt, seed: renderer.reply_ids(f"return {seed % 97}" * (seed % 3 + 1)), version=3)
    recorded = await talk(renderer, engine, seed=5)

    again = await talk(renderer, RecordedEngine(recorded.segments, 3), seed=0)

    assert (again.messages, again.num_forks, again.truncated) == (recorded.messages, recorded.num_forks, False)
    for before, after in zip(recorded.segments, again.segments, strict=True):
        for column in ("token_ids", "loss_mask", "logprobs", "weight_versions"):
            np.testing.assert_array_equal(getattr(after, column), getattr(before, column))


async def test_what_was_never_said_has_no_reply(renderer: ChatRenderer) -> None:
    engine = RecordedEngine((), 0)
    with pytest.raises(EngineError, match="nothing was recorded after this prompt of 2 tokens"):
        await engine.complete([1, 2], max_tokens=1, temperature=1.0, stop_token_ids=[], seed=0, cache_salt="")
