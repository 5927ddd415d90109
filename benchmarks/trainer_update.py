"""One process of `benchmarks.trainer`: GRPO updates by this project's learner. The last line is JSON."""

import argparse
import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.peak_memory import peak_mib, resident_mib
from benchmarks.trainer_rollouts import MAX_TOKENS, MODEL, make_rollouts

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.waiting_threads import let_threads_sleep


def make_spec(tokens_per_microbatch: int) -> TrainingRunSpec:
    """Plain GRPO in float32, as the peer is set up too."""
    document: dict[str, Any] = {
        "steps": 10,
        "model": {"scratch": MODEL.model_dump(by_alias=True)},
        "tasks": {"train": {"dataset": "tasks"}},
        "optimizer": {"learningRate": 1e-6, "beta2": 0.999},
        "rollout": {"maxStaleness": 64},
        "algorithm": {"importanceCorrection": {"level": "none"}},
        "trainer": {"device": "cpu", "dtype": "float32", "tokensPerMicrobatch": tokens_per_microbatch},
    }
    return TrainingRunSpec.model_validate(document)


async def run(storage: Path, shape: str, seed: int, updates: int, threads: int) -> dict[str, Any]:
    """Seconds of each update but the first, and memory."""
    groups = make_rollouts(shape, seed).groups()
    learner = make_learner(make_spec(MAX_TOKENS), storage, num_threads=threads)
    await learner.start()
    seconds, norms = [], []
    before = resident_mib()
    try:
        for _ in range(updates + 1):
            began = time.perf_counter()
            metrics = await learner.train_step(groups)
            seconds.append(time.perf_counter() - began)
            norms.append(metrics["grad_norm"])
    finally:
        await learner.stop()
    return {
        "seconds": seconds[1:],
        "grad_norm": norms[0],
        "peak_mib": peak_mib(),
        "growth_mib": peak_mib() - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("storage", type=Path)
    parser.add_argument("shape", choices=["equal", "long_tailed"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    let_threads_sleep(os.environ)
    print(json.dumps(asyncio.run(run(**vars(arguments)))), flush=True)


if __name__ == "__main__":
    main()
