"""Which demonstrations a step learns from: pure, so that a resumed run draws the same."""

import random
from collections.abc import Sequence
from functools import lru_cache

from sweyard_trainer.rollout.plan import derive_seed
from sweyard_trainer.trajectory import Segment


def draw_batch(demonstrations: Sequence[Segment], step: int, batch_size: int, seed: int) -> list[Segment]:
    """The batch of step `step`, counted from 0: every demonstration once an epoch, in a new order each epoch."""
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
