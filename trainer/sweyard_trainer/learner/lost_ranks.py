"""A rank that is gone, told as that: what the others hear of it, from gloo, are RuntimeErrors about sockets."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.distributed import DistError

from sweyard_trainer.errors import RankDiedError

_GLOO = "gloo/transport"
"""Its messages begin with the file that they come from; there is no type to tell them by."""


@contextmanager
def typed_rank_loss() -> Iterator[None]:
    """Raises RankDiedError for what a collective says when another rank is gone, or does not come in time."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, DistError) and _GLOO not in str(error):
            raise
        raise RankDiedError(f"another rank of the learner is gone: {error}") from error
