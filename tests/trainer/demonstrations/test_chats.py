import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.agents.protocol import FinishReason, Message
from sweyard_trainer.demonstrations.chats import UnmaskableError, chat_messages, chat_segment
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.gateway.conversation import Conversation
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.trajectory import Segment

ASK, REPLY = {"role": "user", "content": "fix it"}, {"role": "assistant", "content": "done"}


def said(segment: Segment, renderer: ChatRenderer) -> str:
    return renderer.text(segment.token_ids[segment.loss_mask].tolist())


def test_replies_are_the_targets_and_ids_are_those_that_sampling_would_see(
    renderer: ChatRenderer, talk: list[Message]
) -> None:
    segment = chat_segment(talk, renderer)
    assert said(segment, renderer) == "edit 1|a|b<|end|>done"
    assert segment.token_ids.tolist() == renderer.prompt_ids(talk)[: len(segment.token_ids)]
    assert len(segment.token_ids) == len(renderer.prompt_ids(talk)) - 1


TURNS = st.lists(st.tuples(st.sampled_from(["user", "tool"]), st.text(max_size=8), st.text(max_size=8)), min_size=1)


@given(turns=TURNS)
def test_a_chat_has_the_mask_that_its_rollout_would_have(
    renderer: ChatRenderer, turns: list[tuple[Any, str, str]]
) -> None:
    conversation, messages = Conversation(renderer), list[Message]()
    for role, asked, replied in turns:
        messages.append(Message(role, asked))
        ids = tuple(renderer.reply_ids(replied))
        messages.append(
            conversation.close(conversation.open(messages), Completion(ids, (0.0,) * len(ids), -1, FinishReason.STOP))
        )
    (rolled,) = conversation.segments()
    read = chat_segment(chat_messages({"messages": [vars_of(message) for message in messages]}), renderer)
    assert read.token_ids.tolist() == rolled.token_ids.tolist()
    assert read.loss_mask.tolist() == rolled.loss_mask.tolist()


def vars_of(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"messages": [ASK, REPLY], "reward": 1.0}, id="other fields beside"),
        pytest.param({"messages": json.dumps([ASK, REPLY])}, id="messages as JSON text"),
        pytest.param(
            {
                "messages": [
                    {**ASK, "content": [{"type": "text", "text": "fix "}, {"type": "text", "text": "it"}]},
                    REPLY,
                ]
            },
            id="content in parts",
        ),
        pytest.param({"messages": [{**ASK, "tool_calls": None}, {**REPLY, "tool_calls": []}]}, id="no tool calls"),
    ],
)
def test_the_common_forms_of_a_row_are_one(row: dict[str, Any]) -> None:
    assert chat_messages(row) == [Message("user", "fix it"), Message("assistant", "done")]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        pytest.param({"prompt": "x"}, "has no `messages`", id="another format"),
        pytest.param([ASK, REPLY], "has no `messages`", id="a list"),
        pytest.param({"messages": []}, "has no `messages`", id="nothing said"),
        pytest.param({"messages": "hello"}, "text, but no JSON", id="text"),
        pytest.param({"messages": [ASK, "done"]}, "message 2 without role", id="a bare reply"),
        pytest.param({"messages": [{"role": "human", "content": "x"}]}, "role 'human'", id="an unknown role"),
        pytest.param({"messages": [ASK, {"role": "assistant", "content": None}]}, "no text", id="no content"),
        pytest.param({"messages": [ASK, {**REPLY, "content": [{"type": "image"}]}]}, "no text", id="a picture"),
        pytest.param({"messages": [ASK, {**REPLY, "tool_calls": [{"id": "1"}]}]}, "tool calls", id="tool calls"),
        pytest.param({"messages": [ASK]}, "no message of the assistant", id="no reply"),
        pytest.param({"messages": [REPLY, ASK, REPLY]}, "begins with the assistant", id="a reply to nothing"),
        pytest.param({"messages": [ASK, REPLY, REPLY]}, "in a row, 2 and 3", id="two replies in a row"),
        pytest.param({"messages": [ASK, {**REPLY, "content": "a<|end|>b"}]}, "mark that ends a reply", id="end mark"),
        pytest.param({"messages": [ASK, {**REPLY, "content": "a" * 99}]}, "more than the 60", id="too long"),
    ],
)
def test_what_cannot_be_masked_exactly_is_refused(renderer: ChatRenderer, row: Any, says: str) -> None:
    with pytest.raises(UnmaskableError, match=says):
        chat_segment(chat_messages(row), renderer, max_tokens=60)
