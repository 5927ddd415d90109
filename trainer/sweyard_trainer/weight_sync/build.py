"""The publisher that a run's engines need."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from sweyard_trainer.weight_sync.disk import DiskWeightSync


def make_publisher(
    engine_urls: Sequence[str], storage: Path, api_key: str | None = None, *, as_adapter: bool = False
) -> Callable[[int], Awaitable[None]]:
    """Publishes `<storage>/weights/<version>`, whole or the adapters alone; without servers there is nobody to tell."""
    return DiskWeightSync(engine_urls, storage / "weights", api_key=api_key, as_adapter=as_adapter).publish
