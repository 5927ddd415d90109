from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sweyard_sandbox.agents.protocol import FinishReason, Message
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.gateway.conversation import Conversation, Opening
from sweyard_trainer.gateway.rendering import ChatRenderer

SYSTEM = Message("system", "repair the function")
USER = Message("user", "hello world")


def completion(ids: Sequence[int], *, stopped: bool = True, version: int = 3) -> Completion:
    logprobs = tuple(-0.5 - position for position in range(len(ids)))
    return Completion(tuple(ids), logprobs, version, FinishReason.STOP if stopped else FinishReason.LENGTH)


def say(conversation: Conversation, messages: list[Message], ids: Sequence[int], *, stopped: bool = True) -> Message:
    return conversation.close(conversation.open(messages), completion(ids, stopped=stopped))


def test_the_newline_between_a_reply_and_the_next_message_is_kept(renderer: ChatRenderer) -> None:
    conversation = Conversation(renderer)
    reply = say(conversation, [USER], renderer.reply_ids("return value"))
    prompt = conversation.open([USER, reply, Message("tool", "done")]).prompt_ids
    text = "".join(renderer._tokenizer.decode([token]) for token in prompt)
    assert text == (
        "<|im_start|>user\nhello world<|im_end|>\n<|im_start|>assistant\nreturn value<|im_end|>\n"
        "<|im_start|>tool\ndone<|im_end|>\n<|im_start|>assistant\n"
    )


def test_many_turns_equal_the_whole_conversation_rendered_at_once(renderer: ChatRenderer) -> None:
    conversation = Conversation(renderer)
    messages = [SYSTEM, USER]
    for turn in range(5):
        messages.append(say(conversation, messages, renderer.reply_ids(f"call {turn}")))
        messages.append(Message("tool", f"result {turn}"))
    assert list(conversation.open(messages).prompt_ids) == renderer.prompt_ids(messages)
    assert conversation.num_forks == 0


def test_ids_that_a_tokenizer_would_never_produce_stay_as_they_were_sampled(renderer: ChatRenderer) -> None:
    letters = [renderer._encode(letter)[0] for letter in "hello"]
    assert letters != renderer._encode("hello")
    conversation = Conversation(renderer)
    reply = say(conversation, [USER], [*letters, *renderer.stop_token_ids])
    assert reply.content == "hello"
    prompt = conversation.open([USER, reply, Message("user", "go on")]).prompt_ids
    start = len(renderer.prompt_ids([USER]))
    assert list(prompt[start : start + 6]) == [*letters, *renderer.stop_token_ids]


def test_a_reply_that_was_cut_off_gets_a_stop_token_that_is_not_trained(renderer: ChatRenderer) -> None:
    conversation = Conversation(renderer)
    reply = say(conversation, [USER], renderer._encode("return value"), stopped=False)
    say(conversation, [USER, reply, Message("tool", "cut")], renderer.reply_ids("hello"))
    (segment,) = conversation.segments()
    stops = segment.token_ids == renderer.stop_token_ids[0]
    assert segment.loss_mask[stops].tolist() == [False, False, False, True]
    assert renderer.text(segment.token_ids.tolist()).count("<|im_end|>\n<|im_start|>tool") == 1


def test_mask_logprobs_and_versions_mark_exactly_the_sampled_tokens(renderer: ChatRenderer) -> None:
    conversation = Conversation(renderer)
    ids = renderer.reply_ids("return")
    say(conversation, [USER], ids)
    (segment,) = conversation.segments()
    count = len(ids)
    assert segment.loss_mask.tolist() == [False] * (len(segment.token_ids) - count) + [True] * count
    assert segment.logprobs[segment.loss_mask].tolist() == [-0.5 - position for position in range(count)]
    assert set(segment.weight_versions[segment.loss_mask].tolist()) == {3}
    assert set(segment.weight_versions[~segment.loss_mask].tolist()) == {-1}
    assert not segment.logprobs[~segment.loss_mask].any()


def test_a_rewritten_history_forks_and_shares_the_agreed_beginning_masked(renderer: ChatRenderer) -> None:
    conversation = Conversation(renderer)
    first = say(conversation, [USER], renderer.reply_ids("first"))
    tool = Message("tool", "one")
    second = say(conversation, [USER, first, tool], renderer.reply_ids("second"))
    assert second.content == "second"
    say(conversation, [USER, first, Message("user", "another way")], renderer.reply_ids("third"))
    original, fork = conversation.segments()
    shared = len(renderer.prompt_ids([USER])) + len(renderer.reply_ids("first"))
    assert original.token_ids[:shared].tolist() == fork.token_ids[:shared].tolist()
    assert not fork.loss_mask[:shared].any()
    assert fork.loss_mask.sum() == len(renderer.reply_ids("third"))
    assert original.loss_mask.sum() == len(renderer.reply_ids("first")) + len(renderer.reply_ids("second"))


def test_a_reply_changed_by_the_client_is_rendered_afresh(renderer: ChatRenderer) -> None:
    conversation = Conversation(renderer)
    say(conversation, [USER], renderer.reply_ids("return value "))
    stripped = [USER, Message("assistant", "return value"), Message("tool", "x")]
    assert list(conversation.open(stripped).prompt_ids) == renderer.prompt_ids(stripped)


def test_a_reply_of_the_clients_own_is_rendered_with_the_whole_and_never_trained(renderer: ChatRenderer) -> None:
    """A template may render replies before the last otherwise, so that no piece of it can be put behind the ids."""
    conversation = Conversation(renderer)
    reply = say(conversation, [USER], renderer.reply_ids("return value"))
    messages = [USER, reply, Message("assistant", "hello again"), Message("user", "go on")]
    opening = conversation.open(messages)
    assert list(opening.prompt_ids) == renderer.prompt_ids(messages)
    conversation.close(opening, completion(renderer.reply_ids("call 1")))
    assert conversation.num_forks == 1
    assert conversation.segments()[1].loss_mask.sum() == len(renderer.reply_ids("call 1"))


def test_two_replies_asked_for_at_once_become_two_segments(renderer: ChatRenderer) -> None:
    conversation = Conversation(renderer)
    first = say(conversation, [USER], renderer.reply_ids("first"))
    history = [USER, first, Message("tool", "one")]
    left, right = conversation.open(history), conversation.open(history)
    conversation.close(left, completion(renderer.reply_ids("left")))
    conversation.close(right, completion(renderer.reply_ids("right")))
    texts = [renderer.text(segment.token_ids.tolist()) for segment in conversation.segments()]
    assert [text.rsplit("\n", 1)[1] for text in texts] == ["left", "right"]


def test_turns_of_a_thinking_template_keep_their_reasoning_and_no_tag_is_orphaned(
    thinking_renderer: ChatRenderer,
) -> None:
    conversation = Conversation(thinking_renderer)
    messages = [USER]
    for turn in range(3):
        reply = say(conversation, messages, thinking_renderer.reply_ids(f"plan {turn}\n</think>\ncall {turn}"))
        messages += [reply, Message("user", f"result {turn}")]
    text = thinking_renderer.text(list(conversation.open(messages).prompt_ids))
    assert [f"<think>\nplan {turn}\n</think>\ncall {turn}<|im_end|>" in text for turn in range(3)] == [True] * 3
    assert text.count("<think>") == text.count("</think>") + 1
    assert conversation.num_forks == 0


def test_history_without_its_reasoning_forks(thinking_renderer: ChatRenderer) -> None:
    conversation = Conversation(thinking_renderer)
    say(conversation, [USER], thinking_renderer.reply_ids("plan\n</think>\ncall"))
    history = [USER, Message("assistant", "call"), Message("user", "result")]
    say(conversation, history, thinking_renderer.reply_ids("x\n</think>\ny"))
    assert conversation.num_forks == 1


def routed(conversation: Conversation, opening: Opening, ids: Sequence[int]) -> Message:
    """A reply with a row of experts for each id the engine read since `num_routed`: its own position."""
    last = len(opening.prompt_ids) + len(ids) - 1
    rows = np.arange(opening.num_routed, last, dtype=np.uint8)[:, None, None]
    return conversation.close(opening, replace(completion(ids), routed_experts=rows))


def test_experts_are_asked_for_once_and_lie_beside_their_tokens(renderer: ChatRenderer) -> None:
    conversation, messages = Conversation(renderer), [USER]
    for turn in range(3):
        opening = conversation.open(messages)
        messages += [routed(conversation, opening, renderer.reply_ids(f"call {turn}")), Message("tool", "done")]
    (segment,) = conversation.segments()
    assert segment.routed_experts is not None
    assert segment.routed_experts[:, 0, 0].tolist() == list(range(len(segment.token_ids) - 1))


def test_forks_and_replies_asked_for_at_once_keep_the_experts_of_what_they_share(renderer: ChatRenderer) -> None:
    conversation = Conversation(renderer)
    first = routed(conversation, conversation.open([USER]), renderer.reply_ids("first"))
    history = [USER, first, Message("tool", "one")]
    left, right = conversation.open(history), conversation.open(history)
    for opening, text in ((left, "left"), (right, "right")):
        routed(conversation, opening, renderer.reply_ids(text))
    fork = conversation.open([USER, first, Message("user", "another way")])
    routed(conversation, fork, renderer.reply_ids("third"))
    assert len(conversation.segments()) == 3
    for segment in conversation.segments():
        assert segment.routed_experts is not None
        assert segment.routed_experts[:, 0, 0].tolist() == list(range(len(segment.token_ids) - 1))


texts = st.text(st.characters(codec="utf-8", exclude_characters="<>|"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(texts, texts, st.booleans()), min_size=1, max_size=5))
def test_earlier_ids_never_change(renderer: ChatRenderer, turns: list[tuple[str, str, bool]]) -> None:
    conversation = Conversation(renderer)
    messages, seen = [USER], np.zeros(0, np.int32)
    for reply, observation, stopped in turns:
        ids = renderer.reply_ids(reply) if stopped else renderer._encode(reply)
        messages = [*messages, say(conversation, messages, ids, stopped=stopped), Message("tool", observation)]
        (segment,) = conversation.segments()
        assert segment.token_ids[: len(seen)].tolist() == seen.tolist()
        assert segment.token_ids[len(segment.token_ids) - len(ids) :].tolist() == ids
        seen = segment.token_ids
