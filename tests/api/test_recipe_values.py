"""Each recipe against its source, field by field."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import pytest

from sweyard_api.resolve import resolve

COMPACT_FILTER = ["truncated", "max_turns", "agent_timeout"]

DEEPSWE_32B = {
    "model.name": "Qwen/Qwen3-32B",
    "tasks.train.dataset": "R2E-Gym/R2E-Gym-Subset",
    "agent.type": "r2e",
    "agent.maxTurns": 50,
    "agent.stepTimeoutSeconds": 90,
    "agent.timeoutSeconds": 5_400,
    "reward.timeoutSeconds": 300,
    "rollout.groupsPerStep": 8,
    "rollout.groupSize": 8,
    "rollout.maxPromptTokens": 4_096,
    "rollout.maxResponseTokens": 32_768,
    "rollout.temperature": 1.0,
    "rollout.maxConcurrent": 512,
    "rollout.maxStaleness": 0,
    "algorithm.estimator": "rloo",
    "algorithm.normalizeByStd": False,
    "algorithm.clipLow": 0.2,
    "algorithm.clipHigh": 0.28,
    "algorithm.kl.coefficient": 0.0,
    "algorithm.entropyCoefficient": 0.0,
    "algorithm.lossAggregation": "sequence_mean_token_sum",
    "algorithm.maskOutcomes": COMPACT_FILTER,
    "algorithm.minibatches": 1,
    "optimizer.learningRate": 1e-6,
    "trainer.replicas": 8,
    "trainer.processesPerReplica": 8,
    "trainer.sequenceParallel": 8,
    "trainer.tokensPerMicrobatch": 32_000,
    "trainer.gradientCheckpointing": True,
    "trainer.cpuOffload": True,
    "inference.placement": "colocated",
    "inference.replicas": 8,
    "inference.tensorParallel": 8,
    "inference.memoryFraction": 0.6,
    "sandboxes.replicas": 512,
    "evaluation.everySteps": 10,
    "evaluation.attempts": 1,
    "evaluation.temperature": 0.0,
    "evaluation.atStart": False,
    "checkpoint.everySteps": 10,
}
QWEN3_8B_MINIMAL = {
    "model.name": "Qwen/Qwen3-8B",
    "rollout.maxPromptTokens": 4_096,
    "rollout.maxResponseTokens": 12_288,
    "rollout.maxConcurrent": 32,
    "sandboxes.replicas": 64,
    "warmup.steps": 200,
    "warmup.demonstrations": "dataset",
    "optimizer.learningRate": 1e-7,
    "trainer.replicas": 1,
    "trainer.processesPerReplica": 2,
    "trainer.tokensPerMicrobatch": 16_384,
    "trainer.lora.base": "int4",
    "trainer.lora.sync": "adapter",
    "trainer.resources.limits": {"nvidia.com/gpu": "2"},
    "inference.replicas": 1,
    "inference.tensorParallel": 2,
    "inference.weights": "int4",
    "inference.resources.limits": {"nvidia.com/gpu": "2"},
}
QWEN3_CODER_30B_DJANGO = {
    "model.name": "Qwen/Qwen3-Coder-30B-A3B-Instruct",
    "tasks.train.dataset": "princeton-nlp/SWE-bench_Verified",
    "tasks.train.repositories": ["django/django"],
    "tasks.train.limit": 201,
    "agent.maxTurns": 50,
    "agent.timeoutSeconds": 1_800,
    "rollout.groupsPerStep": 4,
    "rollout.groupSize": 2,
    "rollout.maxResponseTokens": 16_384,
    "reward.solved": 1.0,
    "reward.unsolved": -1.0,
    "algorithm.estimator": "dr_grpo",
    "algorithm.normalizeByStd": False,
    "optimizer.learningRate": 1e-6,
    "trainer.replayRouting": True,
}
SWEPDB = {
    "steps": 80,
    "agent.type": "pdb",
    "agent.shell": False,
    "agent.maxTurns": 80,
    "agent.timeoutSeconds": 5_400,
    "rollout.groupsPerStep": 32,
    "rollout.groupSize": 8,
    "rollout.maxPromptTokens": 4_096,
    "rollout.maxResponseTokens": 24_000,
    "rollout.temperature": 1.0,
    "rollout.maxConcurrent": 8,
    "sandboxes.replicas": 8,
    "algorithm.estimator": "grpo",
    "algorithm.normalizeByStd": True,
    "algorithm.clipLow": 0.2,
    "algorithm.clipHigh": 0.28,
    "algorithm.kl.coefficient": 0.0,
    "algorithm.entropyCoefficient": 0.0,
    "algorithm.lossAggregation": "sequence_mean_token_sum",
    "algorithm.maskOutcomes": COMPACT_FILTER,
    "algorithm.minibatches": 1,
    "optimizer.learningRate": 1e-6,
    "trainer.replicas": 1,
    "trainer.processesPerReplica": 4,
    "trainer.sequenceParallel": 2,
    "trainer.tokensPerMicrobatch": 20_000,
    "trainer.gradientCheckpointing": True,
    "trainer.cpuOffload": True,
    "inference.placement": "colocated",
    "inference.replicas": 2,
    "inference.tensorParallel": 2,
    "inference.memoryFraction": 0.7,
    "evaluation.everySteps": 5,
    "evaluation.attempts": 1,
    "evaluation.temperature": 1.0,
    "evaluation.atStart": False,
    "checkpoint.everySteps": 20,
    "checkpoint.keep": 1,
}
RECIPES: Mapping[str, Mapping[str, Any]] = {
    "deepswe-32b": DEEPSWE_32B,
    "qwen3-8b-minimal": QWEN3_8B_MINIMAL,
    "qwen3-coder-30b-django": QWEN3_CODER_30B_DJANGO,
    "swepdb-4b": {**SWEPDB, "model.name": "Qwen/Qwen3-4B"},
    "swepdb-8b": {**SWEPDB, "model.name": "Qwen/Qwen3-8B"},
    "swepdb-14b": {**SWEPDB, "model.name": "Qwen/Qwen3-14B"},
    "swepdb-14b-rewrite": {**SWEPDB, "model.name": "Qwen/Qwen3-14B", "agent.type": "rewrite"},
}
TASKS = {"train": {"dataset": "org/train"}, "eval": [{"dataset": "org/eval"}]}


@pytest.mark.parametrize(("preset", "values"), RECIPES.items(), ids=RECIPES)
def test_a_recipe_has_its_sources_values(preset: str, values: Mapping[str, Any]) -> None:
    tasks = {"tasks": TASKS} if preset.startswith("swepdb") else {}
    spec = resolve({"preset": preset, **tasks}).model_dump(mode="json", by_alias=True)
    assert {path: reduce(lambda at, key: at[key], path.split("."), spec) for path in values} == values
