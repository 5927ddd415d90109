"""One process of `benchmarks.trainer`: memory that the output layer and its loss take over their inputs.

The last line is JSON. Forward and backward of the log-probabilities and entropies of `--tokens` tokens, each trained.
"""

import argparse
import json

import torch
from benchmarks.peak_memory import forget_peak, peak_mib, resident_mib

from sweyard_trainer.learner.logprobs import chunked_logprobs

VOCABULARY, HIDDEN = 152_000, 64


def run(tokens: int, threads: int) -> dict[str, float]:
    """MiB above what inputs and gradients of weights take."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, HIDDEN, generator=generator, requires_grad=True)
    weight = torch.randn(VOCABULARY, HIDDEN, generator=generator, requires_grad=True)
    targets = torch.randint(VOCABULARY, (tokens,), generator=generator)
    temperatures = torch.ones(tokens)
    forget_peak()
    before = resident_mib()
    logprobs, _ = chunked_logprobs(hidden, weight, targets, temperatures, entropy_gradient=False)
    torch.autograd.backward(-logprobs.mean())
    return {"tokens": tokens, "growth_mib": round(peak_mib() - before, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    print(json.dumps(run(**vars(parser.parse_args()))), flush=True)


if __name__ == "__main__":
    main()
