"""One run of the learning proof, in a process of its own: `python -m benchmarks.prove.learning_run`.

The control differs in one thing: before each update the rewards of a group change places among its attempts, so that
they say as much about the group and nothing about the attempt.
"""

import argparse
import asyncio
import dataclasses
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sweyard_api.cache_root import dataset_directories
from sweyard_api.resolve import resolve
from sweyard_api.yaml_text import load_document
from sweyard_trainer.environment import Environment
from sweyard_trainer.parts import Trains
from sweyard_trainer.run import run_training
from sweyard_trainer.trajectory import Trajectory
from sweyard_trainer.waiting_threads import let_threads_sleep

Groups = Sequence[Sequence[Trajectory]]


class ShufflingLearner:
    """A learner that is told rewards in the wrong places; all else is the real one's."""

    def __init__(self, learner: Trains, seed: int) -> None:
        self._learner = learner
        self._random = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    async def train_step(self, groups: Groups, version: int) -> Mapping[str, float]:
        return await self._learner.train_step([self._shuffled(group) for group in groups], version)

    def _shuffled(self, group: Sequence[Trajectory]) -> list[Trajectory]:
        rewards = self._random.permutation([attempt.reward for attempt in group])
        return [dataclasses.replace(attempt, reward=float(to)) for attempt, to in zip(group, rewards, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prove.learning_run", description=__doc__)
    parser.add_argument("-f", "--file", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--attempts", type=int, required=True, help="attempts at each held-out task")
    parser.add_argument("--shuffled", action="store_true", help="the control")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    let_threads_sleep(os.environ)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    document = load_document(arguments.file.read_text(encoding="utf-8"))
    spec = resolve(document["spec"] | {"seed": arguments.seed, "evaluation": {"attempts": arguments.attempts}})
    environment = Environment(
        run=f"proof-{arguments.seed}", storage=arguments.output.resolve(), datasets=dataset_directories(os.environ)
    )

    def change(learner: Trains) -> Trains:
        return ShufflingLearner(learner, arguments.seed) if arguments.shuffled else learner

    asyncio.run(run_training(spec, environment, stop_signals=(signal.SIGTERM, signal.SIGINT), change_learner=change))


if __name__ == "__main__":
    main()
