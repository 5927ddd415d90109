"""A row of the common chat format as messages, and messages as a Segment. Pure.

A row is {"messages": [{"role": ..., "content": ...}, ...]}, other fields aside; `messages` may be JSON text, and
content a list of text parts.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, get_args

from sweyard_sandbox.agents.protocol import FinishReason, Message, Role
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.gateway.conversation import Conversation
from sweyard_trainer.gateway.rendering import ChatRenderer, TemplateUnfitError
from sweyard_trainer.trajectory import Segment

ROLES: tuple[Role, ...] = get_args(Role)


class UnmaskableError(SweyardError, ValueError):
    """A conversation of which it cannot be told exactly which tokens are the assistant's."""


def chat_messages(row: Any) -> list[Message]:
    """Raises UnmaskableError with what is wrong, as the end of a sentence that begins with the row."""
    messages = row.get("messages") if isinstance(row, Mapping) else None
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except ValueError:
            raise UnmaskableError("has `messages` that are text, but no JSON") from None
    if not isinstance(messages, Sequence) or not messages:
        raise UnmaskableError("has no `messages`: give a list of role and content")
    return [_message(message, number) for number, message in enumerate(messages, 1)]


def chat_segment(messages: Sequence[Message], renderer: ChatRenderer, max_tokens: int | None = None) -> Segment:
    """A conversation as the gateway would have recorded it. Raises UnmaskableError as `chat_messages` does."""
    _demand_turns(messages)
    conversation = Conversation(renderer)
    history: list[Message] = []
    try:
        for number, message in enumerate(messages, 1):
            if message.role == "assistant":
                conversation.close(conversation.open(history), _as_sampled(message, number, renderer))
            history.append(message)
    except TemplateUnfitError as error:
        raise UnmaskableError(f"does not fit: {error}") from error
    (segment,) = conversation.segments()
    demand_length(segment, max_tokens)
    return segment


def demand_length(segment: Segment, max_tokens: int | None) -> None:
    """Raises UnmaskableError for a segment that is longer: cut, it would teach to stop there."""
    if max_tokens is not None and len(segment.token_ids) > max_tokens:
        raise UnmaskableError(f"has {len(segment.token_ids):,} tokens, more than the {max_tokens:,} of sft.maxTokens")


def _message(message: Any, number: int) -> Message:
    if not isinstance(message, Mapping):
        raise UnmaskableError(f"has a message {number} without role and content")
    role = next((role for role in ROLES if role == message.get("role")), None)
    if role is None:
        told = ", ".join(ROLES)
        raise UnmaskableError(f"has a message {number} of role {message.get('role')!r}: give one of {told}")
    content = message.get("content")
    if message.get("tool_calls") or message.get("function_call"):
        raise UnmaskableError(
            f"has tool calls beside the content of message {number}: write them into the content, as the model would"
        )
    if isinstance(content, Sequence) and not isinstance(content, str) and all(map(_is_text, content)):
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise UnmaskableError(f"has a message {number} whose content is no text")
    return Message(role, content)


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _demand_turns(messages: Sequence[Message]) -> None:
    replies = [number for number, message in enumerate(messages, 1) if message.role == "assistant"]
    if not replies:
        raise UnmaskableError("has no message of the assistant to learn")
    if replies[0] == 1:
        raise UnmaskableError("begins with the assistant: a reply needs something that it answers")
    for earlier, later in pairwise(replies):
        if later == earlier + 1:
            raise UnmaskableError(f"has two messages of the assistant in a row, {earlier} and {later}: join them")


def _as_sampled(message: Message, number: int, renderer: ChatRenderer) -> Completion:
    ids = tuple(renderer.reply_ids(message.content))
    if set(renderer.stop_token_ids) & set(ids[:-1]):
        raise UnmaskableError(f"has the mark that ends a reply within message {number}: take it out")
    return Completion(ids, (0.0,) * len(ids), -1, FinishReason.STOP)
