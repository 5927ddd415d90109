"""Supervised fine-tuning on its own: mode sft."""

from typing import Annotated

from pydantic import Field

from sweyard_api.base import Model, Tokens
from sweyard_api.rule import Rule
from sweyard_api.workload import MAX_REWARD

CHAT_FILE_PATTERN = r"\.(jsonl|jsonl\.gz|parquet)$"

ChatFile = Annotated[str, Field(pattern=CHAT_FILE_PATTERN, max_length=512)]
"""A file of recorded trajectories."""


class Sft(Model):
    """What mode sft learns from. Its steps are `steps`, its learning rate and schedule those of `optimizer`."""

    datasets: Annotated[list[ChatFile], Field(max_length=64)] = []
    """Files of trajectories in chat format, JSONL (gzipped or not) or Parquet: each row has `messages`, a list of role
    and content, of which the assistant's are learned. Paths inside the trainer pod or on the laptop. A row that cannot
    be masked exactly is refused by name, and the rest are used."""
    rollouts: Annotated[list[Annotated[str, Field(min_length=1, max_length=512)]], Field(max_length=64)] = []
    """Directories of runs, whose training attempts are learned from where they earned at least `minReward`. Held-out
    attempts are left alone."""
    min_reward: Annotated[float, Field(ge=-MAX_REWARD, le=MAX_REWARD)] | None = None
    """Least reward of a rollout to learn from. Resolves to reward.solved."""
    batch_size: Annotated[int, Field(ge=1, le=65_536)] = 32
    """Trajectories a step."""
    max_tokens: Annotated[Tokens, Field(ge=2)] | None = None
    """Longer trajectories are refused. Resolves to rollout.maxPromptTokens plus rollout.maxResponseTokens."""

    rules = (
        Rule(
            "",
            "names no trajectories: list files of chats in sft.datasets, or directories of runs in sft.rollouts",
            lambda sft: bool(sft.datasets or sft.rollouts),
            "(has(self.datasets) && size(self.datasets) > 0) || (has(self.rollouts) && size(self.rollouts) > 0)",
        ),
        Rule(
            "minReward",
            "chooses among rollouts, but sft.rollouts is empty: list directories of runs there, or remove this",
            lambda sft: sft.min_reward is None or bool(sft.rollouts),
            "!has(self.minReward) || (has(self.rollouts) && size(self.rollouts) > 0)",
        ),
    )
