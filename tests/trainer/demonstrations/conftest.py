"""A tokenizer and a conversation in its template."""

import pytest

from sweyard_sandbox.agents.protocol import Message
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.model.tokenizer import learn_tokenizer


@pytest.fixture(scope="session")
def renderer() -> ChatRenderer:
    return ChatRenderer(learn_tokenizer(["fix it edit done ok"], 300, 512))


@pytest.fixture
def talk() -> list[Message]:
    return [
        Message("user", "fix it"),
        Message("assistant", "edit 1|a|b"),
        Message("user", "ok"),
        Message("assistant", "done"),
    ]
