"""Tokens a second of a GRPO update against TRL's GRPOTrainer: same rollouts, weights, loss, threads and PyTorch.

    python -m benchmarks.trainer

Each trainer updates in a process of its own, in turns, once to warm up and then `--updates` times in each of `--rounds`
rounds; figures are of the median update. An update is everything between two generations: advantages, padding or
packing, forward, loss, backward, clipping, AdamW. Generation, grading and weight transfer are not in it. TRL is given
its completions through its own `rollout_func`, as many tokens a micro-batch as its padding allows, and no vLLM, so it
corrects nothing for the engine; neither do we then. Both compute in float32 without recomputing activations.
`grad_norm_gap` says how far apart the two first gradients' norms are: they are the same update.

For lengths all equal and long-tailed (lognormal) apart, as `..._equal` and `..._long_tailed`:
`tokens_per_s` and `peer_tokens_per_s` count the rollouts' own tokens, never padding; `ratio` is theirs;
`padding_fraction` is the share of positions that went through our model and hold no token; `peak_rss_ratio` is our
process's peak over theirs, `growth_ratio` the same of what came on top of the loaded model. `idle_fraction_8_ranks` is
the share of positions that 8 ranks would wait for each other with 512 such rollouts. Without a shape behind them, they
are of the long-tailed lengths. `head_memory_ratio` is the memory of output layer and loss with 64K tokens for that with
4K (vocabulary 152,000, hidden size 64). The last line is JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from benchmarks.figures import print_figures
from benchmarks.peer_environment import peer_python
from benchmarks.trainer_rollouts import MAX_TOKENS, lengths_of, make_model, make_rollouts

from sweyard_trainer.learner.batches import build_attempts, weigh
from sweyard_trainer.learner.distribution import RankedBatch
from sweyard_trainer.learner.microbatches import plan_microbatches
from sweyard_trainer.learner.sequences import pack

TRL = "1.16.0"
SHAPES = ("equal", "long_tailed")
HEAD_TOKENS = (4_096, 65_536)


def padding_fraction(shape: str, seed: int) -> float:
    """Of the positions that one rank computes."""
    from benchmarks.trainer_update import make_spec

    rollouts = make_rollouts(shape, seed)
    spec, groups = make_spec(MAX_TOKENS), rollouts.groups()
    attempts = build_attempts(groups, [[t.reward for t in group] for group in groups], spec.algorithm)
    sequences = weigh(attempts, spec.algorithm, MAX_TOKENS)
    batch = RankedBatch.of(sequences, 1, MAX_TOKENS)
    positions = sum(pack(own, torch.device("cpu")).token_ids.numel() for own in batch.per_rank[0] if own)
    return round(1.0 - sum(sequence.num_tokens for sequence in sequences) / positions, 4)


def idle_fraction(shape: str, seed: int, ranks: int, count: int) -> float:
    """Of positions: each round of micro-batches lasts as long as its fullest."""
    lengths = [int(length) for length in lengths_of(shape, count, seed)]
    plan = plan_microbatches(lengths, ranks, MAX_TOKENS)
    rounds = [[sum(lengths[i] for i in members) for members in of_ranks] for of_ranks in zip(*plan, strict=True)]
    computed: int = sum(ranks * max(loads) for loads in rounds)
    return round(1.0 - sum(lengths) / computed, 4)


class Race:
    """Both trainers, in processes of their own, on files in one directory."""

    def __init__(self, directory: Path, updates: int, threads: int) -> None:
        self._directory, self._updates, self._threads = directory, updates, threads
        make_model(directory / "model")
        self._peer = peer_python("trl", TRL, hidden=("vllm",))  # vLLM takes no part, and its import takes memory

    def run(self, shape: str, rounds: int, seed: int) -> dict[str, float]:
        """The figures of one shape."""
        rollouts = make_rollouts(shape, seed)
        path = self._directory / f"{shape}.npz"
        rollouts.write(path)
        tokens = int(rollouts.lengths.sum())
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(self._ours(shape, seed))
            theirs.append(self._theirs(path))
            print(f"{shape}: ours {ours[-1]}, TRL {theirs[-1]}", flush=True)
        return {f"{name}_{shape}": value for name, value in compare(tokens, ours, theirs).items()}

    def _ours(self, shape: str, seed: int) -> dict[str, Any]:
        options = ("--seed", seed, "--updates", self._updates, "--threads", self._threads)
        return self._call(sys.executable, "-m", "benchmarks.trainer_update", self._directory, shape, *options)

    def _theirs(self, rollouts: Path) -> dict[str, Any]:
        output = self._directory / "peer"
        limits = ("--tokens-per-microbatch", MAX_TOKENS, "--updates", self._updates, "--threads", self._threads)
        paths = self._directory / "model", rollouts, output
        return self._call(self._peer, "-m", "benchmarks.trainer_peer", *paths, *limits)

    def _call(self, *command: object) -> dict[str, Any]:
        return last_line(*command, threads=self._threads)


def compare(tokens: int, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> dict[str, float]:
    """Medians over all updates of all rounds; memory of the largest round."""
    mine, peer = (tokens / statistics.median(s for one in runs for s in one["seconds"]) for runs in (ours, theirs))
    memory = {
        name: round(max(one[key] for one in ours) / max(one[key] for one in theirs), 3)
        for name, key in (("peak_rss_ratio", "peak_mib"), ("growth_ratio", "growth_mib"))
    }
    return {
        "tokens_per_s": round(mine, 1),
        "peer_tokens_per_s": round(peer, 1),
        "ratio": round(mine / peer, 3),
        "grad_norm_gap": round(abs(ours[0]["grad_norm"] / theirs[0]["grad_norm"] - 1), 5),
        **memory,
    }


def last_line(*command: object, threads: int) -> dict[str, Any]:
    """JSON of a process that may use so many threads."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-4_000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def head_memory(threads: int) -> dict[str, float]:
    """MiB at both lengths, and their ratio."""
    command = (sys.executable, "-m", "benchmarks.trainer_head", "--threads", threads, "--tokens")
    few, many = (last_line(*command, tokens, threads=threads)["growth_mib"] for tokens in HEAD_TOKENS)
    return {"head_mib_4k": few, "head_mib_64k": many, "head_memory_ratio": round(many / few, 3)}


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"benchmark": "trainer", "peer": f"trl {TRL}", "threads": arguments.threads}
    figures |= head_memory(arguments.threads)
    with tempfile.TemporaryDirectory() as directory:
        race = Race(Path(directory), arguments.updates, arguments.threads)
        for shape in SHAPES:
            figures |= race.run(shape, arguments.rounds, arguments.seed)
            figures[f"padding_fraction_{shape}"] = padding_fraction(shape, arguments.seed)
            figures[f"idle_fraction_8_ranks_{shape}"] = idle_fraction(shape, arguments.seed, ranks=8, count=512)
    suffix = f"_{SHAPES[-1]}"
    figures |= {name.removesuffix(suffix): value for name, value in figures.items() if name.endswith(suffix)}
    print_figures(figures)


if __name__ == "__main__":
    main()
