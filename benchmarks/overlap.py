"""Idle trainer and idle sandboxes with and without overlap: the real scheduler, 512 attempts wide, in virtual time.

    python -m benchmarks.overlap

Steps of 64 groups of 8 attempts. An attempt lasts as long as one of DeepSWE did: 2,676 s in the mean (rllm#138) and
5,400 s at the most, where its agent was stopped (rllm v0.2.0, examples/swe). How the times spread in between was not
published: a lognormal with `--spread` as deviation of its logarithm, cut at the most, of that mean. A training step
takes `--train-seconds`, during which nothing new is sampled for its weights; neither was published. Backlog, stream
and worker pool are the trainer's own; workers sleep, and hours pass in a second.

For each staleness S, over the steps after the first S + 1: `trainer_idle_S` is the share of time that the trainer
waited for rollouts, `engine_idle_S` the share of the 512 places that stood empty, `dropped_S` groups that were let go.
`bound_S` is the least idle share of the trainer under any schedule that trains each attempt to its end, and
`engine_bound_S` that of the places: a step lasts at least as long as its training, as its attempts on all places, and
as (the longest attempt of a step + training) / (S + 1), since attempts begun under one version must have ended before
the version S + 1 later. `speedup_S` is steps a second against no overlap. The last line is JSON.
"""

import argparse
import asyncio
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.figures import print_figures

from sweyard_operator.testing.virtual_time import run_in_virtual_time
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.rollout.attempt import masked
from sweyard_trainer.rollout.backlog import Backlog, BacklogRules
from sweyard_trainer.rollout.plan import AttemptPlan, TaskCursor
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollout.stream import RolloutStream, StreamRules
from sweyard_trainer.trajectory import Trajectory

MEAN_SECONDS, MOST_SECONDS = 2_676.0, 5_400.0
GRADING_SECONDS = 300.0
GROUPS, GROUP_SIZE, WIDTH = 64, 8, 512
STALENESS = (0, 1, 2, 4)
NUM_TASKS = 4_578


@dataclass(frozen=True, slots=True)
class Times:
    """Lognormal, cut: min(exp(location + spread * normal), MOST_SECONDS)."""

    location: float
    spread: float

    @classmethod
    def of_mean(cls, mean: float, spread: float) -> "Times":
        """By bisection: the mean grows with the location."""
        low, high = 0.0, math.log(MOST_SECONDS) + 10 * spread
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if cls(middle, spread).mean() < mean else (low, middle)
        return cls(low, spread)

    def mean(self) -> float:
        """E min(X, most) = E[X; X < most] + most P(X >= most)."""
        z = (math.log(MOST_SECONDS) - self.location) / self.spread
        whole = math.exp(self.location + self.spread**2 / 2)
        return whole * _below(z - self.spread) + MOST_SECONDS * (1 - _below(z))

    def longest(self, count: int) -> float:
        """Expected longest of `count`: the integral of 1 - P(X < t) ** count, by the midpoint rule."""
        slices = 10_000
        middles = ((number + 0.5) * MOST_SECONDS / slices for number in range(slices))
        return sum(1 - self._share_below(seconds) ** count for seconds in middles) * MOST_SECONDS / slices

    def cut_share(self) -> float:
        """Of attempts that are stopped."""
        return 1 - self._share_below(MOST_SECONDS)

    def draw(self, seed: int) -> float:
        """Seconds of one attempt."""
        return min(math.exp(random.Random(seed).gauss(self.location, self.spread)), MOST_SECONDS)

    def _share_below(self, seconds: float) -> float:
        return _below((math.log(seconds) - self.location) / self.spread)


def _below(z: float) -> float:
    """Of the standard normal."""
    return (1 + math.erf(z / math.sqrt(2))) / 2


@dataclass(frozen=True, slots=True)
class SleepingWorker:
    """Its attempts last as long as their seed says; every other is solved."""

    times: Times

    async def start(self) -> None: ...

    async def use_weights(self, version: int, num_engines: int | None = None) -> None: ...

    async def announce(self, images: Sequence[str]) -> None: ...

    async def verify(self, task: Task, *, patient: bool = False) -> str | None:
        return None

    async def regression_score(self, task: Task, patch: str) -> float:
        raise NotImplementedError

    async def run(self, plan: AttemptPlan) -> Trajectory:
        await asyncio.sleep(self.times.draw(plan.seed))
        return replace(masked(plan, Outcome.SOLVED, ""), reward=float(plan.seed % 2))

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Simulated:
    """What one simulated run measured after its first steps."""

    step_seconds: float
    trainer_idle: float
    engine_idle: float
    staleness_mean: float
    dropped: int


async def simulate(times: Times, max_staleness: int, steps: int, train_seconds: float, seed: int) -> Simulated:
    """`steps` steps after the first `max_staleness` + 1."""
    now = asyncio.get_running_loop().time
    pool = WorkerPool([SleepingWorker(times)], WIDTH, monotonic=now)
    rules = BacklogRules(GROUPS, GROUP_SIZE, max_staleness, WIDTH, max_refills=0)
    tasks = make_tasks()
    stream = RolloutStream(
        tasks,
        TaskCursor(tuple(tasks), seed),
        Backlog(rules),
        pool,
        StreamRules(GROUP_SIZE, 1.0, seed, MOST_SECONDS + GRADING_SECONDS),
        verifier=None,
        on_attempt=lambda attempt: None,
    )
    warm = max_staleness + 1
    began, waited, dropped = 0.0, 0.0, 0
    ages: list[int] = []
    for step in range(warm + steps):
        if step == warm:
            began, waited, dropped, ages = now(), 0.0, 0, []
            pool.occupancy.idle_fraction()
        asked = now()
        # As if the run went on: the last steps are no quieter than the others.
        rollouts = await stream.collect(step + 1, step, steps_left=max_staleness + 2)
        waited += now() - asked
        dropped += len(rollouts.drops)
        ages += rollouts.staleness
        await asyncio.sleep(train_seconds)
    seconds, idle = now() - began, pool.occupancy.idle_fraction()
    await stream.close()
    return Simulated(seconds / steps, waited / seconds, idle, statistics.mean(ages), dropped)


def make_tasks() -> dict[str, Task]:
    """As many as R2E-Gym's subset has."""
    return {
        str(number): Task(
            id=str(number),
            repository="r",
            image=f"image:{number}",
            working_directory="/",
            problem_statement="p",
            gold_patch="g",
            fail_to_pass=("t",),
        )
        for number in range(NUM_TASKS)
    }


def least_step_seconds(times: Times, max_staleness: int, train_seconds: float) -> float:
    """See the module."""
    longest = times.longest(GROUPS * GROUP_SIZE)
    return max(train_seconds, work_seconds(), (longest + train_seconds) / (max_staleness + 1))


def work_seconds() -> float:
    """All attempts of a step on all places."""
    return GROUPS * GROUP_SIZE * MEAN_SECONDS / WIDTH


def main() -> None:
    """Parse, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-seconds", type=float, default=600.0)
    parser.add_argument("--spread", type=float, default=0.6)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    train_seconds = arguments.train_seconds
    times = Times.of_mean(MEAN_SECONDS, arguments.spread)
    figures: dict[str, Any] = {
        "benchmark": "overlap",
        "width": WIDTH,
        "train_seconds": train_seconds,
        "spread": arguments.spread,
        "attempt_mean_seconds": round(times.mean(), 1),
        "attempt_longest_of_step_seconds": round(times.longest(GROUPS * GROUP_SIZE), 1),
        "attempts_cut_share": round(times.cut_share(), 4),
    }
    first: Simulated | None = None
    for max_staleness in STALENESS:
        found = run_in_virtual_time(simulate(times, max_staleness, arguments.steps, train_seconds, arguments.seed))
        first = first or found
        least = least_step_seconds(times, max_staleness, train_seconds)
        print(f"staleness {max_staleness}: {found}", flush=True)
        figures |= {
            f"step_seconds_{max_staleness}": round(found.step_seconds),
            f"trainer_idle_{max_staleness}": round(found.trainer_idle, 4),
            f"bound_{max_staleness}": round(1 - train_seconds / least, 4),
            f"engine_idle_{max_staleness}": round(found.engine_idle, 4),
            f"engine_bound_{max_staleness}": round(1 - work_seconds() / least, 4),
            f"staleness_mean_{max_staleness}": round(found.staleness_mean, 3),
            f"dropped_{max_staleness}": found.dropped,
            f"speedup_{max_staleness}": round(first.step_seconds / found.step_seconds, 3),
        }
    print_figures(figures)


if __name__ == "__main__":
    main()
