"""Token bookkeeping of one conversation: pure, no I/O.

Invariants (tests/trainer/gateway):
- a turn appends to the ids that are there; earlier ids never change;
- the loss mask is true exactly where an engine sampled, and each sampled token is trained in one segment only;
- a client that rewrites its history starts a new segment, which shares the longest agreed beginning, masked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sweyard_sandbox.agents.protocol import FinishReason, Message
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.trajectory import Segment


@dataclass(slots=True)
class TokenRecord:
    """One growing token sequence, the columns of a Segment."""

    token_ids: list[int] = field(default_factory=list)
    loss_mask: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    weight_versions: list[int] = field(default_factory=list)
    routing: list[NDArray[np.unsignedinteger]] = field(default_factory=list)
    """Of the ids from the first on, in pieces; a reply's last id follows with the next reply."""

    def append_given(self, token_ids: Sequence[int]) -> None:
        """Tokens that nobody sampled: prompts, observations, template."""
        self._append(token_ids, [False] * len(token_ids), [0.0] * len(token_ids), [-1] * len(token_ids))

    def append_sampled(self, completion: Completion) -> None:
        """A reply."""
        count = len(completion.token_ids)
        self._append(completion.token_ids, [True] * count, completion.logprobs, [completion.weight_version] * count)
        if completion.routed_experts is not None:
            self.routing.append(completion.routed_experts)

    @property
    def num_routed(self) -> int:
        """Ids whose experts are known."""
        return sum(len(piece) for piece in self.routing)

    def beginning(self, num_ids: int, num_routed: int) -> "TokenRecord":
        """Its first ids, as given, with the experts of so many of them where known."""
        record = TokenRecord()
        record.append_given(self.token_ids[:num_ids])
        record.routing = [np.concatenate(self.routing)[:num_routed]] if self.routing else []
        return record

    def segment(self) -> Segment:
        """As the learner takes it."""
        return Segment(
            np.asarray(self.token_ids, np.int32),
            np.asarray(self.loss_mask, np.bool_),
            np.asarray(self.logprobs, np.float32),
            np.asarray(self.weight_versions, np.int32),
            np.concatenate(self.routing) if self.routing else None,
        )

    def _append(
        self, token_ids: Sequence[int], mask: Sequence[bool], logprobs: Sequence[float], versions: Sequence[int]
    ) -> None:
        self.token_ids += token_ids
        self.loss_mask += mask
        self.logprobs += logprobs
        self.weight_versions += versions


@dataclass(slots=True, eq=False)
class Branch:
    """A history and its tokens. After each reply, how many ids belong to how many messages is remembered."""

    tools: str = ""
    """Those that its prompt begins with."""
    messages: list[Message] = field(default_factory=list)
    record: TokenRecord = field(default_factory=TokenRecord)
    reply_ended: bool = True
    """The last reply's ids end with the stop token."""
    borders: list[tuple[int, int, bool]] = field(default_factory=list)
    """After each reply: (number of messages, number of ids, reply_ended)."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A branch made ready for a reply, not yet part of the conversation."""

    branch: Branch
    prompt_ids: tuple[int, ...]
    """What the engine is to continue."""
    messages: tuple[Message, ...]
    num_history_ids: int
    """Ids that the branch had when it was made ready."""
    num_routed: int = 0
    """Ids of these whose experts are known."""


class Conversation:
    """All branches of one attempt."""

    def __init__(self, renderer: ChatRenderer) -> None:
        self._renderer = renderer
        self._branches: list[Branch] = []

    @property
    def num_forks(self) -> int:
        """Times the client rewrote its history."""
        return max(0, len(self._branches) - 1)

    def open(self, messages: Sequence[Message], tools: str = "") -> Opening:
        """Where a reply to `messages` belongs, and its prompt. Changes nothing.

        Other `tools` (JSON text) than before are another beginning.
        """
        alike = [branch for branch in self._branches if branch.tools == tools]
        whole = [branch for branch in alike if _is_extension(branch.messages, messages)]
        if whole:
            branch = max(whole, key=lambda candidate: len(candidate.messages))
            added = self._renderer.delta_ids(messages[len(branch.messages) :], reply_ended=branch.reply_ended)
            return _opening(branch, added, messages)
        return self._open_fork(messages, tools, alike)

    def close(self, opening: Opening, completion: Completion) -> Message:
        """Record the reply that an engine gave to `opening`; the reply as the client sees it."""
        branch = opening.branch
        if len(branch.record.token_ids) != opening.num_history_ids:  # another reply came in between
            record = branch.record.beginning(opening.num_history_ids, opening.num_routed)
            branch = Branch(branch.tools, record=record)
        if branch not in self._branches:
            self._branches.append(branch)
        branch.record.append_given(opening.prompt_ids[len(branch.record.token_ids) :])
        branch.record.append_sampled(completion)
        reply = Message("assistant", self._renderer.text(completion.token_ids))
        branch.messages = [*opening.messages, reply]
        branch.reply_ended = completion.finish_reason is FinishReason.STOP
        branch.borders.append((len(branch.messages), len(branch.record.token_ids), branch.reply_ended))
        return reply

    @property
    def messages(self) -> tuple[Message, ...]:
        """The longest history, as people read it."""
        return tuple(max(self._branches, key=lambda branch: len(branch.messages), default=Branch()).messages)

    def segments(self) -> tuple[Segment, ...]:
        """One for each branch, in the order they began."""
        return tuple(branch.record.segment() for branch in self._branches)

    def _open_fork(self, messages: Sequence[Message], tools: str, alike: Sequence[Branch]) -> Opening:
        fork = Branch(tools)
        origin, border = _longest_agreed(alike, messages)
        if origin is None:
            return _opening(fork, self._renderer.prompt_ids(messages, tools), messages)
        num_messages, num_ids, reply_ended = border
        fork.record = origin.record.beginning(num_ids, num_ids)
        added = self._renderer.delta_ids(messages[num_messages:], reply_ended=reply_ended)
        return _opening(fork, added, messages)


def _longest_agreed(
    branches: Sequence[Branch], messages: Sequence[Message]
) -> tuple[Branch | None, tuple[int, int, bool]]:
    best: tuple[Branch | None, tuple[int, int, bool]] = (None, (0, 0, True))
    for branch in branches:
        for border in branch.borders:
            if border[0] > best[1][0] and _is_extension(branch.messages[: border[0]], messages):
                best = (branch, border)
    return best


def _opening(branch: Branch, added: Sequence[int], messages: Sequence[Message]) -> Opening:
    history = branch.record.token_ids
    return Opening(branch, (*history, *added), tuple(messages), len(history), branch.record.num_routed)


def _is_extension(history: Sequence[Message], messages: Sequence[Message]) -> bool:
    """True if `messages` continue `history` by what a template can add after a reply: no assistant message."""
    count = len(history)
    return (
        0 < count < len(messages)
        and list(messages[:count]) == list(history)
        and all(message.role != "assistant" for message in messages[count:])
    )
