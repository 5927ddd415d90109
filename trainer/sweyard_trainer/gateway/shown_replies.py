"""What a client was shown of each reply, so that the history it sends back is taken for the text that was sampled.

A client of tools sees a reply as content and calls; it returns them with the calls' ids. These ids are ours and are
used once, so they name the reply exactly, whatever white space or thoughts the client dropped. One that changes a call
has rewritten its history.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from sweyard_trainer.gateway.tool_calls import ToolCall

Numbered = tuple[str, ToolCall]
"""Id and call."""


@dataclass(slots=True)
class ShownReplies:
    """Of one session."""

    by_call: dict[str, tuple[tuple[Numbered, ...], str]] = field(default_factory=dict)
    """First id of a reply -> its calls, and the sampled text."""
    by_content: dict[str, str] = field(default_factory=dict)
    """Content of a reply without calls -> the sampled text."""
    num_calls: int = 0

    def number(self, calls: Sequence[ToolCall]) -> tuple[Numbered, ...]:
        """Ids for the calls of a new reply."""
        first = self.num_calls
        self.num_calls += len(calls)
        return tuple((f"call_{first + index}", call) for index, call in enumerate(calls))

    def remember(self, content: str, calls: Sequence[Numbered], text: str) -> None:
        """`text` is shown as `content` and `calls`."""
        if calls:
            self.by_call[calls[0][0]] = (tuple(calls), text)
        else:
            self.by_content[content.strip()] = text

    def sampled_text(self, content: str, calls: Sequence[Numbered]) -> str | None:
        """The text that a returned reply was; None for one that was never shown like this."""
        if not calls:
            return self.by_content.get(content.strip())
        shown, text = self.by_call.get(calls[0][0], ((), ""))
        return text if shown and _comparable(shown) == _comparable(calls) else None


def _comparable(calls: Sequence[Numbered]) -> list[tuple[str, str, str]]:
    return [(number, call.name, json.dumps(call.arguments, sort_keys=True)) for number, call in calls]
