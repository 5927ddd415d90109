"""CheckpointSave: one checkpoint on its way to storage, beside training."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch.distributed import ProcessGroup

from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.checkpoint.store import CheckpointState, CheckpointStore
from sweyard_trainer.checkpoint.tensors import Staged, write_tensors
from sweyard_trainer.errors import CheckpointError
from sweyard_trainer.learner.lost_ranks import typed_rank_loss
from sweyard_trainer.storage_errors import typed_storage_errors
from sweyard_trainer.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class CheckpointSave:
    """What every rank is told of it. Picklable."""

    root: str
    name: str
    state: CheckpointState
    keep: int
    best_first: tuple[int, ...]
    """See retention.superfluous."""

    def write(self, rank: int, staged: Staged, group: ProcessGroup | None, held: Sequence[Trajectory] = ()) -> None:
        """One rank's share; on rank 0 it counts when this returns. Runs beside training, in a group of its own.

        `held` are the attempts that the main loop holds, which rank 0 writes.

        Raises StorageFullError, StorageReadOnlyError, CheckpointError, RankDiedError; what was complete stays so.
        """
        store = CheckpointStore(self.root)
        with typed_checkpoint_errors(store, self.name), typed_rank_loss():
            try:
                write_tensors(store, self.name, rank, staged, group)
                if rank == 0:
                    store.write_held(self.name, held)
                    store.commit(self.name, self.state, self.keep, self.best_first)
            except (OSError, RuntimeError):
                if rank == 0:
                    with contextlib.suppress(
                        OSError
                    ):  # the next save tries again; the first failure is the one to tell
                        store.remove(self.name)
                raise


@contextlib.contextmanager
def typed_checkpoint_errors(store: CheckpointStore, name: str) -> Iterator[None]:
    """Whatever storage says becomes a sentence."""
    place = store.place(name)
    try:
        with typed_storage_errors(place):
            yield
    except SweyardError:
        raise
    except (OSError, RuntimeError) as error:
        raise CheckpointError(
            f"checkpoint {place} could not be written, the one before it is kept: {type(error).__name__}: {error}"
        ) from error
