"""Recorded rollouts that two trainers update on: alike but for how their lengths are spread.

Each is a prompt and turns of a reply and an observation; half of what follows the prompt was sampled.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweyard_api.workload import ScratchModel
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.model.scratch import make_scratch_model
from sweyard_trainer.model.tokenizer import learn_tokenizer
from sweyard_trainer.trajectory import Segment, Trajectory

MODEL = ScratchModel(layers=4, hidden_size=256, vocabulary_size=8_192)
MAX_TOKENS = 4_096
GROUPS, GROUP_SIZE = 2, 8
PROMPT_TOKENS, TURN_TOKENS = 128, 64
MEDIAN_TOKENS, TAIL = 512, 0.8
"""Of the long-tailed lengths: lognormal with this median and deviation of the logarithm, as agents' attempts are."""
EQUAL_TOKENS = 768
"""About their mean."""


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The columns of a file; sequences lie one after another."""

    token_ids: NDArray[np.int64]
    sampled: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    rewards: NDArray[np.float64]

    def write(self, path: Path) -> None:
        np.savez(
            path,
            token_ids=self.token_ids,
            sampled=self.sampled,
            lengths=self.lengths,
            rewards=self.rewards,
            prompt_tokens=PROMPT_TOKENS,
            group_size=GROUP_SIZE,
        )

    def groups(self) -> list[list[Trajectory]]:
        """As the learner takes them."""
        ends = np.cumsum(self.lengths)[:-1]
        parts = zip(np.split(self.token_ids, ends), np.split(self.sampled, ends), self.rewards, strict=True)
        attempts = [_trajectory(index, ids, mask, float(reward)) for index, (ids, mask, reward) in enumerate(parts)]
        return [attempts[start : start + GROUP_SIZE] for start in range(0, len(attempts), GROUP_SIZE)]


def lengths_of(shape: str, count: int, seed: int) -> NDArray[np.int64]:
    """`equal` or `long_tailed`."""
    if shape == "equal":
        return np.full(count, EQUAL_TOKENS, np.int64)
    drawn = np.random.default_rng(seed).lognormal(np.log(MEDIAN_TOKENS), TAIL, count)
    return np.clip(drawn.astype(np.int64), PROMPT_TOKENS + TURN_TOKENS, MAX_TOKENS)


def make_rollouts(shape: str, seed: int) -> Rollouts:
    """Half of each group solved."""
    count = GROUPS * GROUP_SIZE
    lengths = lengths_of(shape, count, seed)
    sampled = [_sampled(int(length)) for length in lengths]
    token_ids = np.random.default_rng(seed).integers(6, 256, int(lengths.sum()))
    return Rollouts(token_ids, np.concatenate(sampled), lengths, (np.arange(count) % 2).astype(np.float64))


def make_model(directory: Path) -> None:
    """The policy that both start from."""
    directory.mkdir(parents=True)
    tokenizer = learn_tokenizer(["def add(left, right):\n    return left + right\n"], 320, MAX_TOKENS)
    make_scratch_model(MODEL, tokenizer, MAX_TOKENS, seed=0, directory=directory)


def _sampled(length: int) -> NDArray[np.bool_]:
    after = np.arange(length) - PROMPT_TOKENS
    sampled: NDArray[np.bool_] = (after >= 0) & (after // TURN_TOKENS % 2 == 0)
    return sampled


def _trajectory(index: int, ids: NDArray[np.int64], mask: NDArray[np.bool_], reward: float) -> Trajectory:
    uniform = -np.log(MODEL.vocabulary_size)  # what an untrained policy gives each token, nearly
    segment = Segment(
        ids.astype(np.int32),
        mask,
        np.where(mask, uniform, 0).astype(np.float32),
        np.where(mask, 0, -1).astype(np.int32),
    )
    group = str(index // GROUP_SIZE)
    outcome = Outcome.SOLVED if reward > 0 else Outcome.UNSOLVED
    return Trajectory(f"1/{group}/{index}", group, group, (segment,), outcome, reward)
