"""The policy of mode eval: the model as it was prepared. Nothing is loaded here, let alone trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweyard_trainer.rollouts.seen_tokens import SeenTokens
from sweyard_trainer.trajectory import Segment, Trajectory


class FrozenPolicy:
    """A learner (parts.Trains) that hands the engines the initial weights under each version that it is asked for."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage

    async def start(self) -> None:
        """Nothing to start."""

    async def save_weights(self, version: int) -> Path:
        """`weights/<version>` is the model itself."""
        target = self._storage / "weights" / str(version)
        target.parent.mkdir(exist_ok=True)
        if not target.is_symlink():
            target.symlink_to(Path("..") / "model", target_is_directory=True)
        return target

    async def load_latest(self) -> tuple[int, dict[str, Any]] | None:
        """There is no state but the model."""
        return None

    async def load_held(self) -> list[Trajectory]:
        """Nor does anybody hold anything."""
        return []

    async def sft_step(self, sequences: Sequence[Segment]) -> Mapping[str, float]:
        raise AssertionError("mode eval trains nothing")

    async def train_step(self, groups: Sequence[Sequence[Trajectory]], version: int) -> Mapping[str, float]:
        raise AssertionError("mode eval trains nothing")

    def take_seen(self) -> Sequence[SeenTokens]:
        """It looks at no token."""
        return ()

    async def save_checkpoint(
        self,
        step: int,
        extra: Mapping[str, Any],
        best_first: Sequence[int] = (),
        *,
        held: Sequence[Trajectory] = (),
        in_warmup: bool = False,
    ) -> str:
        raise AssertionError("mode eval has nothing to keep")

    async def settle_checkpoint(self, *, wait: bool = True) -> bool:
        """Nothing was begun."""
        return True

    async def open_transfer(self, engine_urls: Sequence[str], workers_per_engine: int, master_host: str) -> None:
        raise AssertionError("mode eval sends files")

    async def open_handover(self, engine_urls: Sequence[str]) -> None:
        raise AssertionError("mode eval sends files")

    async def send_weights(self) -> None:
        raise AssertionError("mode eval sends files")

    async def release_memory(self) -> None:
        """It has none."""

    async def stop(self) -> None:
        """Nothing to stop."""
