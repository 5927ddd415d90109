"""vLLM's client protocol for weight transfer, over several servers at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol


class WeightSyncClient(Protocol):
    """What vLLM's trainer side calls; vllm.distributed.weight_transfer.clients has one for a single server."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None: ...

    def start_weight_update(self) -> None: ...

    def update_weights(self, update_info: Any) -> None: ...

    def finish_weight_update(self, weight_version: str | None = None) -> None: ...


class FanOutClient:
    """All servers in parallel, since they meet inside the same collectives. The first failure is raised."""

    def __init__(self, clients: Sequence[WeightSyncClient]) -> None:
        self._clients = tuple(clients)

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """All alike."""
        self._on_all(lambda client: client.init_weight_transfer_engine(init_info))

    def start_weight_update(self) -> None:
        self._on_all(lambda client: client.start_weight_update())

    def update_weights(self, update_info: Any) -> None:
        self._on_all(lambda client: client.update_weights(update_info))

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._on_all(lambda client: client.finish_weight_update(weight_version))

    def _on_all(self, call: Callable[[WeightSyncClient], None]) -> None:
        with ThreadPoolExecutor(max_workers=len(self._clients)) as pool:
            list(pool.map(call, self._clients))


class RankedFanOutClient(FanOutClient):
    """The workers of all servers are ranks of one group, in which the sender is rank 0."""

    def __init__(self, clients: Sequence[WeightSyncClient], workers_per_engine: int) -> None:
        super().__init__(clients)
        self._workers_per_engine = workers_per_engine

    @property
    def world_size(self) -> int:
        """The sender and all workers of all engines."""
        return 1 + len(self._clients) * self._workers_per_engine

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Each engine's workers get the ranks behind those of the engine before."""
        offsets = {
            id(client): init_info["rank_offset"] + number * self._workers_per_engine
            for number, client in enumerate(self._clients)
        }
        self._on_all(
            lambda client: client.init_weight_transfer_engine({**init_info, "rank_offset": offsets[id(client)]})
        )
