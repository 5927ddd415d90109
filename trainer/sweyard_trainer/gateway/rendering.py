"""Chat template and tokenizer, used so that nothing that an engine produced is ever tokenised again.

A conversation's first prompt is rendered whole. Later turns add a delta: the text that the template puts after an
assistant message's content up to the next reply, found by rendering a two-message probe conversation. The border lies
directly behind the engine's own stop token, a special token, so tokenising the delta alone is exact.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.gateway.tool_calls import call_form

PROBE_REPLY = "sweyard-probe-reply"
"""Content of the probe's assistant message; a word that no template changes."""

PIECES = "  a word, isn't it .\n\n    x = 1 "
"""What tokenizers of words and those that tidy up tell otherwise than token by token."""

OTHER_MODEL = "take one that was taught to chat (often called Instruct), or add a template to its directory"

GENERAL_CLASSES = {"PreTrainedTokenizerFast", "TokenizersBackend"}
"""Names of the class that does what tokenizer.json says."""


class TemplateUnfitError(SweyardError, ValueError):
    """A chat template that cannot be extended turn by turn."""


class Tokenizer(Protocol):
    """What is used of a transformers tokenizer."""

    eos_token_id: int | None
    chat_template: Any
    """Text, or texts by name."""

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> Any: ...

    def encode(self, text: str, *, add_special_tokens: bool = ...) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = ...) -> str: ...

    def convert_ids_to_tokens(self, token_id: int) -> str: ...


class ChatRenderer:
    """Renders the conversations of one model."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._end_id = _end_of_turn_id(tokenizer)
        self._end_text = tokenizer.convert_ids_to_tokens(self._end_id)
        self.call_form = call_form(str(tokenizer.chat_template))
        """How the model writes tool calls; None where its template has no tools."""
        self.tells_by_piece = _tells_by_piece(tokenizer)
        """A text is its tokens' texts one behind another, as that of byte-level tokenizers is."""

    @classmethod
    def load(cls, directory: Path) -> "ChatRenderer":
        """From a directory in HF layout. Raises TemplateUnfitError with a sentence that names it."""
        tokenizer = load_tokenizer(directory)
        try:
            return cls(tokenizer)
        except TemplateUnfitError as error:
            raise TemplateUnfitError(f"model.name: of the model at {directory}, {error}; {OTHER_MODEL}") from error

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a reply."""
        return (self._end_id,)

    def prompt_ids(self, messages: Sequence[Message], tools: str = "") -> list[int]:
        """A whole conversation, up to where the next reply begins. `tools`: JSON text of those that are offered."""
        return self._encode(self._render(messages, reply_follows=True, tools=tools))

    def delta_ids(self, messages: Sequence[Message], *, reply_ended: bool) -> list[int]:
        """What follows a reply: `messages`, up to where the next reply begins.

        `reply_ended` says that the reply's own ids end with the stop token; a reply that was cut off gets one here.
        """
        probe = [Message("user", "?"), Message("assistant", PROBE_REPLY)]
        rendered = self._render([*probe, *messages], reply_follows=True)
        text = _behind_probe(rendered)
        if not text.startswith(self._end_text):
            raise TemplateUnfitError(
                f"the chat template ends an assistant message by {text[:20]!r}, not by its stop token"
            )
        return self._encode(text[len(self._end_text) :] if reply_ended else text)

    def reply_ids(self, content: str) -> list[int]:
        """A scripted reply as an engine would have produced it, stop token included."""
        return [*self.content_ids(content), self._end_id]

    def content_ids(self, content: str) -> list[int]:
        """A reply without its stop token."""
        return self._encode(content)

    def text(self, token_ids: Sequence[int]) -> str:
        """A reply as a client sees it: without its stop token, everything else kept."""
        ids = token_ids[:-1] if token_ids and token_ids[-1] == self._end_id else token_ids
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def _render(self, messages: Sequence[Message], *, reply_follows: bool, tools: str = "") -> str:
        conversation = [{"role": message.role, "content": message.content} for message in messages]
        offered = {"tools": json.loads(tools)} if tools else {}
        return _templated(self._tokenizer, conversation, add_generation_prompt=reply_follows, **offered)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def load_tokenizer(directory: Path) -> Tokenizer:
    """Of a directory in HF layout; PyTorch is imported only for a tokenizer that has a class of its own.

    Raises TemplateUnfitError where there is none.
    """
    settings = directory / "tokenizer_config.json"
    if not settings.is_file():
        raise TemplateUnfitError(f"model.name: the model at {directory} has no {settings.name}; {OTHER_MODEL}")
    config = json.loads(settings.read_text(encoding="utf-8"))
    if config.get("tokenizer_class") in GENERAL_CLASSES:
        return cast(Tokenizer, PreTrainedTokenizerFast.from_pretrained(directory))
    from transformers import AutoTokenizer

    return cast(Tokenizer, AutoTokenizer.from_pretrained(directory))


def _tells_by_piece(tokenizer: Tokenizer) -> bool:
    ids = tokenizer.encode(PIECES, add_special_tokens=False)
    pieces = [tokenizer.decode([token_id], skip_special_tokens=False) for token_id in ids]
    return "".join(pieces) == tokenizer.decode(ids, skip_special_tokens=False) == PIECES


def _templated(tokenizer: Tokenizer, conversation: list[dict[str, str]], **options: Any) -> str:
    """The text of a conversation. Raises TemplateUnfitError where the template refuses it."""
    try:
        return str(tokenizer.apply_chat_template(conversation, tokenize=False, **options))
    except TemplateError as error:
        roles = ", ".join(message["role"] for message in conversation)
        raise TemplateUnfitError(f"the chat template refuses a conversation of {roles}: {error}") from error


def _end_of_turn_id(tokenizer: Tokenizer) -> int:
    """The token that the template puts behind an assistant message; must be one special token of the tokenizer."""
    if not tokenizer.chat_template:
        raise TemplateUnfitError("the tokenizer has no chat template")
    conversation = [{"role": "user", "content": "?"}, {"role": "assistant", "content": PROBE_REPLY}]
    tail = _behind_probe(_templated(tokenizer, conversation, add_generation_prompt=False)).strip()
    ids = tokenizer.encode(tail, add_special_tokens=False) if tail else []
    if len(ids) != 1:
        raise TemplateUnfitError(f"the chat template ends an assistant message by {tail!r}, which is not one token")
    return ids[0]


def _behind_probe(rendered: str) -> str:
    _, found, text = rendered.rpartition(PROBE_REPLY)
    if not found:
        raise TemplateUnfitError("the chat template leaves out what the assistant said")
    return text
