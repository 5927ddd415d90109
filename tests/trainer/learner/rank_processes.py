"""Ranks in forked processes, which one learner after another can use.

They are forked by an interpreter that has imported PyTorch once; actors of Ray import it each.
"""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.warm_interpreter import WarmInterpreter

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.errors import RankDiedError
from sweyard_trainer.learner.rank_worker import RankWorker
from sweyard_trainer.learner.ranks import LOOPBACK

CREATE = "create"


def serve(connection: "Connection[Any, Any]") -> None:
    """One process: a RankWorker at each CREATE, then its methods. What they raise ends the process."""
    worker: RankWorker | None = None
    while (request := connection.recv()) is not None:
        method, arguments = request
        if method == CREATE:
            worker, answer = RankWorker(*arguments), None
        else:
            answer = getattr(worker, method)(*arguments)
        connection.send(answer)


@contextmanager
def rank_processes(interpreter: WarmInterpreter, size: int) -> Iterator[list["Connection[Any, Any]"]]:
    """Connections to `size` processes, which end with the block."""
    pipes = [Pipe() for _ in range(size)]
    processes = []
    for _, theirs in pipes:
        processes.append(interpreter.fork(serve, theirs))
        theirs.close()
    try:
        yield [ours for ours, _ in pipes]
    finally:
        for process, (ours, _) in zip(processes, pipes, strict=True):
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            ours.close()


class ForkedRanks:
    """A RankGroup of them that remembers how many sequences lay in each micro-batch of the last update."""

    def __init__(self, connections: Sequence["Connection[Any, Any]"], spec: TrainingRunSpec, storage: Path) -> None:
        self._connections, self._spec, self._storage = connections, spec, storage
        self.microbatches: list[list[int]] = []

    @property
    def size(self) -> int:
        return len(self._connections)

    async def start(self) -> None:
        await self.call(CREATE, [(rank, self.size, self._spec, self._storage, 1) for rank in range(self.size)])
        self._connections[0].send(("open_store", (LOOPBACK,)))
        port = await asyncio.to_thread(self._connections[0].recv)
        await self.call("connect", [(LOOPBACK, port)] * self.size)

    async def call(self, method: str, per_rank: Sequence[tuple[Any, ...]]) -> list[Any]:
        if method == "policy_update":
            self.microbatches = [[len(members) for members in own] for own, _ in per_rank]
        return await asyncio.to_thread(self._exchange, method, per_rank)

    async def stop(self) -> None:
        await self.call("close", [()] * self.size)

    def _exchange(self, method: str, per_rank: Sequence[tuple[Any, ...]]) -> list[Any]:
        for connection, arguments in zip(self._connections, per_rank, strict=True):
            connection.send((method, arguments))
        answers: dict[int, Any] = {}
        while waiting := [connection for connection in self._connections if id(connection) not in answers]:
            for connection in wait(waiting):
                assert isinstance(connection, Connection)
                try:
                    answers[id(connection)] = connection.recv()
                except EOFError as error:
                    raise RankDiedError("a rank of the learner died; its traceback is on the terminal") from error
        return [answers[id(connection)] for connection in self._connections]
