"""Reading a checkpoint that is marked complete and is not whole: a disk's fault, or somebody who removed files.

What is lost with another rank is told before it comes here (learner/lost_ranks.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pickle import UnpicklingError

import torch

from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.errors import CheckpointDamagedError

_SIGNS = (
    *(FileNotFoundError, EOFError, UnpicklingError),
    *(RuntimeError, ValueError, TypeError, LookupError, AssertionError),
)
"""What JSON, pickle and PyTorch raise for content that is cut off, altered or gone. A disk that does not answer is
another matter, which another try may mend."""


@contextmanager
def typed_damage(store: CheckpointStore, name: str) -> Iterator[None]:
    """Raises CheckpointDamagedError with the name of the checkpoint and what its reader said."""
    try:
        yield
    except torch.OutOfMemoryError:  # the files may be whole
        raise
    except _SIGNS as error:
        said = " ".join(str(error).split()) or "no reason is given"
        raise CheckpointDamagedError(
            f"checkpoint {store.place(name)} is damaged ({type(error).__name__}: {said})"
        ) from error
