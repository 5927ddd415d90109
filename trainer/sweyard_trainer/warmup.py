"""Demonstrations for the supervised phase, tokenised by the gateway's own bookkeeping, so ids and masks match."""

import json
import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow.parquet

from sweyard_sandbox.agents.protocol import Agent, FinishReason, Message
from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.gateway.conversation import Conversation
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.rollout.plan import derive_seed
from sweyard_trainer.trajectory import Segment

DEMONSTRATIONS_PER_TASK = 8
"""Scripted ones; each a different draw of the script."""


class DemonstrationFormatError(SweyardError, ValueError):
    """A row of a demonstrations file that is not a chat with a reply in it."""


def demonstration_segment(messages: Sequence[Message], renderer: ChatRenderer) -> Segment:
    """A conversation as the gateway would have recorded it; assistant messages are the targets."""
    conversation = Conversation(renderer)
    history: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            ids = tuple(renderer.reply_ids(message.content))
            completion = Completion(ids, (0.0,) * len(ids), -1, FinishReason.STOP)
            conversation.close(conversation.open(history), completion)
        history.append(message)
    segments = conversation.segments()
    if len(segments) != 1:
        raise DemonstrationFormatError(f"a demonstration needs a prompt and replies; got {len(messages)} messages")
    return segments[0]


def scripted_demonstrations(
    tasks: Sequence[Task], agent: Agent, renderer: ChatRenderer, *, correct_fraction: float, seed: int
) -> list[Segment]:
    """Several for each task; a share of `correct_fraction` of all solves its task."""
    total = len(tasks) * DEMONSTRATIONS_PER_TASK
    correct = [index < round(correct_fraction * total) for index in range(total)]
    random.Random(derive_seed(seed, "correct")).shuffle(correct)
    owners = [task for task in tasks for _ in range(DEMONSTRATIONS_PER_TASK)]
    scripts = (
        agent.scripted(task, correct=right, seed=derive_seed(seed, number))
        for number, (task, right) in enumerate(zip(owners, correct, strict=True))
    )
    return [demonstration_segment(messages, renderer) for messages in scripts]


def recorded_demonstrations(path: Path, renderer: ChatRenderer) -> list[Segment]:
    """Rows {"messages": [{"role", "content"}]} of a JSONL or Parquet file."""
    if path.suffix == ".parquet":
        rows = pyarrow.parquet.read_table(path).to_pylist()
    else:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [demonstration_segment(_messages(row, path, number), renderer) for number, row in enumerate(rows, 1)]


def _messages(row: dict[str, object], path: Path, number: int) -> list[Message]:
    messages = row.get("messages")
    if not isinstance(messages, list):
        raise DemonstrationFormatError(f"{path} row {number}: give `messages`, a list of role and content")
    return [Message(message["role"], message["content"]) for message in messages]


def draw_batch(demonstrations: Sequence[Segment], step: int, batch_size: int, seed: int) -> list[Segment]:
    """The batch of warm-up step `step`: every demonstration once an epoch, in a new order each epoch."""
    count = len(demonstrations)
    batch = []
    for number in range(step * batch_size, (step + 1) * batch_size):
        epoch, position = divmod(number, count)
        batch.append(demonstrations[_epoch_order(count, epoch, seed)[position]])
    return batch


@lru_cache(maxsize=2)
def _epoch_order(count: int, epoch: int, seed: int) -> list[int]:
    order = list(range(count))
    random.Random(derive_seed(seed, "epoch", epoch)).shuffle(order)
    return order
