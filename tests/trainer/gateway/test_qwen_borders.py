"""Golden tokens of chats with Qwen3 and Qwen3-Coder: borders of turns, parallel calls, special tokens, bytes."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.trainer.gateway.qwen import QWEN3, QWEN3_CODER, qwen_tokenizer

from sweyard_sandbox.agents.protocol import FinishReason, Message
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.gateway.conversation import Conversation
from sweyard_trainer.gateway.rendering import ChatRenderer

TOKENIZERS = {"qwen3": qwen_tokenizer(QWEN3), "qwen3-coder": qwen_tokenizer(QWEN3_CODER)}
USER = Message("user", "hello")
CALLS = {
    "qwen3": '<tool_call>\n{"name": "ls"}\n</tool_call>\n<tool_call>\n{"name": "id"}\n</tool_call>',
    "qwen3-coder": "<tool_call>\n<function=ls>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=id>\n</function>\n</tool_call>",
}


@pytest.fixture(params=TOKENIZERS)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tokenizer(family: str) -> Any:
    return TOKENIZERS[family]


@pytest.fixture
def renderer(tokenizer: Any) -> ChatRenderer:
    return ChatRenderer(tokenizer)


def say(
    conversation: Conversation, messages: Sequence[Message], ids: Sequence[int], *, stopped: bool = True
) -> Message:
    finish = FinishReason.STOP if stopped else FinishReason.LENGTH
    return conversation.close(conversation.open(messages), Completion(tuple(ids), (-0.5,) * len(ids), 1, finish))


def ids_of(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def test_the_border_of_two_turns_is_stop_line_break_start(renderer: ChatRenderer, tokenizer: Any) -> None:
    conversation = Conversation(renderer)
    reply = say(conversation, [USER], renderer.reply_ids("return"))
    prompt = conversation.open([USER, reply, Message("user", "hello")]).prompt_ids
    expected = ["<|im_start|>", "user", "Ċ", "hello", "<|im_end|>", "Ċ", "<|im_start|>", "assistant", "Ċ"]
    replied = ["return", "<|im_end|>", "Ċ"]
    assert tokenizer.convert_ids_to_tokens(list(prompt)) == [*expected, *replied, *expected]


def test_results_of_parallel_calls_share_one_turn_of_the_user(
    family: str, renderer: ChatRenderer, tokenizer: Any
) -> None:
    conversation = Conversation(renderer)
    reply = say(conversation, [USER], renderer.reply_ids(CALLS[family]))
    assert reply.content == CALLS[family]
    prompt = conversation.open([USER, reply, Message("tool", "a"), Message("tool", "b")]).prompt_ids
    end = {"qwen3": "", "qwen3-coder": "\n"}[family]
    assert tokenizer.decode(list(prompt)) == (
        f"<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n{CALLS[family]}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>"
        f"{end}<|im_end|>\n<|im_start|>assistant\n"
    )
    marks = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<|im_start|>", "<|im_end|>"]
    counts = [list(prompt).count(tokenizer.convert_tokens_to_ids(mark)) for mark in marks]
    assert counts == [2, 2, 2, 2, 4, 3]


def test_calls_one_after_another_equal_the_conversation_rendered_at_once(family: str, renderer: ChatRenderer) -> None:
    conversation, messages = Conversation(renderer), [Message("system", "repair"), USER]
    for turn in range(3):
        messages.append(say(conversation, messages, renderer.reply_ids(CALLS[family])))
        messages += [Message("tool", f"left {turn}"), Message("tool", f"right {turn}")]
    assert list(conversation.open(messages).prompt_ids) == renderer.prompt_ids(messages)
    assert conversation.num_forks == 0


def test_thoughts_stay_in_the_tokens_though_the_template_would_drop_them() -> None:
    renderer, tokenizer = ChatRenderer(TOKENIZERS["qwen3"]), TOKENIZERS["qwen3"]
    conversation, messages = Conversation(renderer), [USER]
    for turn in range(2):
        thought = f"<think>\nplan {turn}\n</think>\n\nsaid {turn}"
        messages += [say(conversation, messages, renderer.reply_ids(thought)), Message("user", f"go on {turn}")]
    kept = tokenizer.decode(list(conversation.open(messages).prompt_ids))
    rendered = tokenizer.decode(renderer.prompt_ids(messages))
    assert [kept.count("<think>"), kept.count("</think>"), rendered.count("<think>")] == [2, 2, 0]
    assert conversation.num_forks == 0


@pytest.mark.parametrize("mark", ["<|endoftext|>", "<|im_start|>", "<think>", "</tool_response>"])
def test_a_special_token_within_a_reply_is_one_token_that_its_text_shows(
    mark: str, renderer: ChatRenderer, tokenizer: Any
) -> None:
    ids = [*ids_of(tokenizer, "return"), tokenizer.convert_tokens_to_ids(mark), *renderer.reply_ids("hello")]
    conversation = Conversation(renderer)
    reply = say(conversation, [USER], ids)
    assert reply.content == f"return{mark}hello"
    say(conversation, [USER, reply, Message("tool", "x")], renderer.reply_ids("return"))
    (segment,) = conversation.segments()
    begin = len(renderer.prompt_ids([USER]))
    assert segment.token_ids[begin : begin + len(ids)].tolist() == ids
    assert segment.loss_mask[begin : begin + len(ids)].all()


BYTES = {
    "two bytes": "é",
    "three bytes": "漢字",
    "four bytes": "\U0001f680",
    "joined emoji": "\U0001f469\u200d\U0001f4bb",
    "a letter and its accent apart": "e\u0301",
}


@pytest.mark.parametrize("text", BYTES.values(), ids=BYTES)
def test_characters_that_are_several_tokens_come_back_whole_and_are_never_tokenised_again(
    text: str, renderer: ChatRenderer, tokenizer: Any
) -> None:
    ids = [tokenizer.convert_tokens_to_ids(BYTE_TOKENS[byte]) for byte in text.encode()]
    assert len(ids) > 1
    conversation = Conversation(renderer)
    reply = say(conversation, [USER], [*ids, *renderer.stop_token_ids])
    assert reply.content == text
    prompt = conversation.open([USER, reply, Message("tool", text)]).prompt_ids
    begin = len(renderer.prompt_ids([USER]))
    assert list(prompt[begin : begin + len(ids)]) == ids
    assert conversation.num_forks == 0


@pytest.mark.parametrize("text", BYTES.values(), ids=BYTES)
def test_a_reply_cut_within_a_character_goes_on_from_its_very_bytes(
    text: str, renderer: ChatRenderer, tokenizer: Any
) -> None:
    ids = [tokenizer.convert_tokens_to_ids(BYTE_TOKENS[byte]) for byte in text.encode()][:-1]
    conversation = Conversation(renderer)
    reply = say(conversation, [USER], ids, stopped=False)
    say(conversation, [USER, reply, Message("tool", "cut")], renderer.reply_ids("return"))
    (segment,) = conversation.segments()
    begin = len(renderer.prompt_ids([USER]))
    assert segment.token_ids[begin : begin + len(ids) + 1].tolist() == [*ids, *renderer.stop_token_ids]
    assert segment.loss_mask[begin : begin + len(ids) + 1].tolist() == [True] * len(ids) + [False]


def _byte_tokens() -> dict[int, str]:
    """What byte-level vocabularies call each byte: itself where it can be seen, else a sign beyond Latin-1."""
    seen = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {byte: chr(byte) for byte in seen} | {byte: chr(256 + number) for number, byte in enumerate(hidden)}


BYTE_TOKENS = _byte_tokens()
