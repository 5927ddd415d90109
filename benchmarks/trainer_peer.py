"""The peer's process of `benchmarks.trainer`: TRL's GRPOTrainer on recorded completions. The last line is JSON.

Run by the peer's own Python. Generation is replaced through `rollout_func`, TRL's own way to bring completions; an
update reaches from its return to its next call, so it has what GRPOTrainer does between two generations: padding,
decoding, reward and advantage, loss, backward, clipping, optimizer. Imports nothing of this project but peak_memory.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.peak_memory import peak_mib, resident_mib
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer


class Recorded:
    """The rollouts, and when they were asked for."""

    def __init__(self, path: Path) -> None:
        data = np.load(path)
        prompt, ends = int(data["prompt_tokens"]), np.cumsum(data["lengths"])[:-1]
        sequences = [part.tolist() for part in np.split(data["token_ids"], ends)]
        masks = [part[prompt:].astype(int).tolist() for part in np.split(data["sampled"], ends)]
        self.output = {
            "prompt_ids": [ids[:prompt] for ids in sequences],
            "completion_ids": [ids[prompt:] for ids in sequences],
            "logprobs": None,
            "env_mask": masks,
            "reward": data["rewards"].tolist(),
        }
        self.longest = int(data["lengths"].max())
        self.group_size = int(data["group_size"])
        self.asked: list[float] = []
        self.given: list[float] = []

    def __call__(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        assert len(prompts) == len(self.output["prompt_ids"]), "one generation for each update"
        self.asked.append(time.perf_counter())
        output = {name: list(values) if values else values for name, values in self.output.items()}
        self.given.append(time.perf_counter())
        return output

    def seconds(self, ended: float) -> list[float]:
        """Of each update."""
        return [after - before for before, after in zip(self.given, [*self.asked[1:], ended], strict=True)]


def recorded_reward(reward: list[float], **_: Any) -> list[float]:
    return reward


def make_config(recorded: Recorded, tokens_per_microbatch: int, updates: int, output: Path) -> GRPOConfig:
    """The same loss: token mean, no KL, float32, no activation recomputed; as many tokens held at a time."""
    count = len(recorded.output["prompt_ids"])
    each = max(
        size
        for size in range(1, count + 1)
        if count % size == 0 and size * recorded.longest <= max(tokens_per_microbatch, recorded.longest)
    )
    return GRPOConfig(
        output_dir=str(output),
        per_device_train_batch_size=each,
        gradient_accumulation_steps=count // each,
        num_generations=recorded.group_size,
        max_completion_length=tokens_per_microbatch,
        loss_type="dapo",
        beta=0.0,
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        max_steps=updates,
        shuffle_dataset=False,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        optim="adamw_torch_fused",
        weight_decay=0.0,
        max_grad_norm=1.0,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("rollouts", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--tokens-per-microbatch", type=int, required=True)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    torch.set_num_threads(arguments.threads)
    recorded = Recorded(arguments.rollouts)
    groups = len(recorded.output["prompt_ids"]) // recorded.group_size
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32, attn_implementation="sdpa"),
        processing_class=AutoTokenizer.from_pretrained(arguments.model),
        reward_funcs=recorded_reward,
        args=make_config(recorded, arguments.tokens_per_microbatch, arguments.updates + 1, arguments.output),
        train_dataset=Dataset.from_list([{"prompt": str(group)} for group in range(groups)]),
        rollout_func=recorded,
    )
    before = resident_mib()
    trainer.train()
    seconds = recorded.seconds(time.perf_counter())
    norms = [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]
    figures = {
        "seconds": seconds[1:],
        "grad_norm": float(norms[0]),
        "peak_mib": peak_mib(),
        "growth_mib": peak_mib() - before,
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
