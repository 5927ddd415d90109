"""Listing 100,000 recorded attempts against reading all that is recorded of them, in the same run.

`python -m benchmarks.rollouts [--attempts N] [--tokens T]`: writes steps of 512 attempts as a run does, then has the
command line list the solved ones of some tasks in a process of its own, beside a process that only starts. The last
line is JSON: `list_s`, `start_s` (the command line's `--version`), `whole_s` (every column read), `ratio` (whole_s over
list_s less start_s), `attempts`, `mib`, `write_ms` (of an attempt, encoded and handed to the kernel) and `seal_s` (of a
step).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.rollouts.files import ROLLOUTS, UNDER_WAY, find_files, step_label
from sweyard_trainer.rollouts.journal import Journal
from sweyard_trainer.rollouts.reading import iterate_batches
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.trajectory import Segment, Trajectory

ATTEMPTS_PER_STEP = 512
GROUP_SIZE = 8
TURN_CHARACTERS = 400


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollouts", description=__doc__)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=500, help="of each attempt")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        writes, seals = write_run(directory / ROLLOUTS, arguments.attempts, arguments.tokens)
        command = ["rollouts", "list", str(directory), "--outcome", "solved", "--task", "package-1*", "-o", "name"]
        start_s, list_s = seconds(lambda: sweyard("--version")), seconds(lambda: sweyard(*command))
        whole_s = seconds(lambda: read_everything(directory / ROLLOUTS))
        size = sum(path.stat().st_size for path in (directory / ROLLOUTS).iterdir())
    figures = {
        "attempts": arguments.attempts,
        "mib": round(size / 2**20),
        "start_s": round(start_s, 2),
        "list_s": round(list_s, 2),
        "whole_s": round(whole_s, 2),
        "ratio": round(whole_s / (list_s - start_s), 1),
        "write_ms": round(1_000 * fmean(writes), 2),
        "seal_s": round(fmean(seals), 2),
    }
    print(json.dumps(figures))


def write_run(rollouts: Path, attempts: int, num_tokens: int) -> tuple[list[float], list[float]]:
    """Seconds of each write and of each seal."""
    writes, seals = [], []
    journal = Journal(rollouts / UNDER_WAY)
    random = np.random.default_rng(0)
    for step, first in enumerate(range(0, attempts, ATTEMPTS_PER_STEP), 1):
        made = [
            make_attempt(random, step, number, num_tokens) for number in range(min(ATTEMPTS_PER_STEP, attempts - first))
        ]
        began = time.perf_counter()
        for attempt in made:
            journal.write(attempt)
        written = time.perf_counter()
        seal(rollouts / step_label(step), made)
        journal.forget(made)
        writes.append((written - began) / len(made))
        seals.append(time.perf_counter() - written)
    return writes, seals


def make_attempt(random: np.random.Generator, step: int, number: int, num_tokens: int) -> Trajectory:
    """Random tokens, half of them sampled, and as many words as they would be."""
    mask = np.arange(num_tokens) >= num_tokens // 2
    segment = Segment(
        random.integers(0, 150_000, num_tokens, np.int32),
        mask,
        np.where(mask, -random.random(num_tokens), 0).astype(np.float32),
        np.where(mask, step, -1).astype(np.int32),
    )
    text = " ".join(map(str, segment.token_ids[: TURN_CHARACTERS // 6]))
    turns = [{"role": role, "content": text} for role in ("system", "user", *("assistant", "user") * 5)]
    group, index = divmod(number, GROUP_SIZE)
    task = f"package-{(step * 64 + group) % 4_500}"
    solved = bool(random.random() < 0.3)
    attempt = Trajectory(f"{step}/{task}/{index}", task, f"{step}/{task}", (segment,), Outcome.UNSOLVED, 0.0)
    attempt = replace(attempt, transcript=turns, patch=text, grading_log=text, timings={"total": 60.0})
    return replace(attempt, outcome=Outcome.SOLVED, reward=1.0) if solved else attempt


def read_everything(rollouts: Path) -> None:
    """What listing would cost if it had to read whole attempts."""
    for path in find_files(rollouts).values():
        for batch in iterate_batches(path):
            assert batch.num_rows


def sweyard(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "sweyard_cli", *arguments], check=True, stdout=subprocess.DEVNULL)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
