"""The Responses API, spoken by OpenAI's own client."""

from typing import Any

import httpx
import openai
import pytest
from tests.trainer.gateway.conftest import make_tokenizer
from tests.trainer.gateway.tool_templates import HERMES

from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.public_app import public_app
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits
from sweyard_trainer.gateway.tool_calls import HermesForm, ToolCall

CALLS = (ToolCall("edit", {"path": "a"}), ToolCall("list", {}))
TEXTS = [HermesForm().render("I look.", CALLS), "done, at last"]
TOOLS: Any = [
    {"type": "function", "name": "edit", "description": "d", "parameters": {"type": "object"}, "strict": False},
    {"type": "function", "name": "list", "parameters": {"type": "object"}},
]


class World:
    """A client with its own session."""

    def __init__(self) -> None:
        self.renderer = ChatRenderer(make_tokenizer(HERMES))
        self.gateway = Gateway(self.renderer, Limits(2_000, 4_000, 1_000))
        self.replies = iter(TEXTS)
        self.engine = FakeEngine(lambda prompt, seed: self.renderer.reply_ids(next(self.replies)))
        transport = httpx.ASGITransport(public_app(self.gateway))
        self.client = openai.AsyncOpenAI(
            base_url="http://gateway/v1",
            api_key="key",
            http_client=httpx.AsyncClient(transport=transport),
            max_retries=0,
        )


@pytest.fixture
async def world() -> Any:
    made = World()
    await made.gateway.use_engines([made.engine], 0)
    made.gateway.create_session("a", "key", temperature=1.0, seed=0)
    async with made.client:
        yield made


async def ask(world: World, stream: bool, **asked: Any) -> tuple[Any, str]:
    """The response, and the text as it was streamed."""
    if not stream:
        response = await world.client.responses.create(model="mine", tools=TOOLS, **asked)
        return response, response.output_text
    pieces = []
    async with world.client.responses.stream(model="mine", tools=TOOLS, **asked) as events:
        async for event in events:
            if event.type == "response.output_text.delta":
                pieces.append(event.delta)
        return await events.get_final_response(), "".join(pieces)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_calls_and_results_extend_what_was_sampled(world: World, stream: bool) -> None:
    first, text = await ask(world, stream, instructions="be brief", input=[{"role": "user", "content": "hello"}])
    assert text.strip() == "I look."
    calls = [item for item in first.output if item.type == "function_call"]
    assert [(call.name, call.arguments) for call in calls] == [("edit", '{"path": "a"}'), ("list", "{}")]
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": "ok"} for call in calls]
    said = [item.model_dump(exclude_none=True) for item in first.output]
    history = [{"role": "user", "content": "hello"}, *said, *results]
    last, text = await ask(world, stream, instructions="be brief", input=history)
    assert (text, last.status) == ("done, at last", "completed")
    assert last.usage.output_tokens == len(world.renderer.reply_ids(TEXTS[1]))
    record = world.gateway.finish_session("a")
    (segment,) = record.segments
    sampled = [token for text in TEXTS for token in world.renderer.reply_ids(text)]
    assert segment.token_ids[segment.loss_mask].tolist() == sampled
    roles = ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert [message.role for message in record.messages] == roles


async def test_a_reply_that_was_cut_says_so(world: World) -> None:
    events = [
        event
        async for event in await world.client.responses.create(
            model="mine", input="hello", max_output_tokens=2, stream=True
        )
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last: Any = events[-1]
    assert last.type == "response.incomplete"
    assert (last.response.status, last.response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an earlier response": ({"previous_response_id": "resp_1"}, "send the whole conversation"),
    "a tool of theirs": ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
    "a choice": ({"tool_choice": "required"}, "tool_choice cannot be set"),
    "top-p": ({"top_p": 0.5}, "top_p cannot be set"),
    "a picture": ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "content.0.type"),
    "nothing": ({"input": []}, "at least 1"),
    "arguments that are none": (
        {"input": [{"type": "function_call", "call_id": "1", "name": "a", "arguments": "["}]},
        "no JSON object",
    ),
}


@pytest.mark.parametrize(("asked", "words"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_answered_is_refused(world: World, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        await world.client.responses.create(**{"model": "mine", "input": "hello", **asked})
    assert world.engine.prompts == []
