"""What gloo says when a rank is gone is told as that, and as nothing else."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch.distributed import DistBackendError, HashStore, ProcessGroupGloo

from sweyard_trainer.checkpoint.damage import typed_damage
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.errors import RankDiedError
from sweyard_trainer.learner.lost_ranks import typed_rank_loss


def connected_groups(seconds: float) -> list[ProcessGroupGloo]:
    """Two ranks in this process."""
    store = HashStore()

    def join(rank: int) -> ProcessGroupGloo:
        return ProcessGroupGloo(store, rank, 2, timedelta(seconds=seconds))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(join, range(2)))


def test_a_rank_that_ends_is_lost_and_no_checkpoint_is_damaged(tmp_path: Path) -> None:
    groups = connected_groups(30)
    del groups[1]
    with (
        pytest.raises(RankDiedError, match="another rank of the learner is gone"),
        typed_damage(CheckpointStore(str(tmp_path)), "step-1"),
        typed_rank_loss(),
    ):
        groups[0].allreduce([torch.ones(2)]).wait()


def test_a_rank_that_does_not_come_is_lost() -> None:
    here, absent = connected_groups(0.2)
    with pytest.raises(RankDiedError, match="Timed out"), typed_rank_loss():
        here.allreduce([torch.ones(2)]).wait()
    assert absent.size() == 2


@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param(DistBackendError("ncclRemoteError"), RankDiedError, id="NCCL"),
        pytest.param(RuntimeError("size mismatch for lm_head.weight"), RuntimeError, id="weights of another shape"),
        pytest.param(ValueError("no such layer"), ValueError, id="anything else"),
    ],
)
def test_only_collectives_lose_ranks(said: Exception, told: type[Exception]) -> None:
    with pytest.raises(told) as raised, typed_rank_loss():
        raise said
    assert type(raised.value) is told
