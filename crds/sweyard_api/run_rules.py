"""Rules between the sections of a TrainingRun."""

from typing import TYPE_CHECKING

from sweyard_api.rule import Rule

if TYPE_CHECKING:
    from sweyard_api.training_run import TrainingRunSpec

GROUP_ESTIMATORS = ("grpo", "rloo", "dr_grpo", "reinforce_plus_plus_baseline", "gspo", "cispo")
"""Estimators that compare the attempts of one group."""

SCRIPTED_AGENTS = ("short", "custom")
"""Agents with a scripted solver, whose conversations a scripted warm-up imitates; `custom` if it has `scripted`, which
the trainer asks."""


def _learns_in_groups(spec: "TrainingRunSpec") -> bool:
    return (
        spec.mode != "rl"
        or spec.steps == 0
        or spec.rollout.group_size > 1
        or spec.algorithm.estimator not in GROUP_ESTIMATORS
    )


def _warmup_can_be_scripted(spec: "TrainingRunSpec") -> bool:
    warmup = spec.warmup
    scripted = spec.mode == "rl" and warmup is not None and warmup.demonstrations == "scripted"
    return not scripted or spec.agent.type in SCRIPTED_AGENTS


def _context_fits(spec: "TrainingRunSpec") -> bool:
    length = spec.inference.max_model_len
    return length is None or length >= spec.rollout.max_prompt_tokens + spec.rollout.max_response_tokens


RUN_RULES = (
    Rule(
        "rollout.groupSize",
        "with one attempt a task there is nothing to compare: set it to at least 2, or algorithm.estimator to "
        "reinforce_plus_plus",
        _learns_in_groups,
        "self.?rollout.?groupSize.orValue(2) != 1 || self.?mode.orValue('rl') != 'rl' || self.?steps.orValue(1) == 0"
        f" || !(self.?algorithm.?estimator.orValue('grpo') in {list(GROUP_ESTIMATORS)})",
    ),
    Rule(
        "algorithm.dynamicSampling",
        "drops groups whose rewards are all equal, which every group of one attempt is: set rollout.groupSize to at "
        "least 2 or switch dynamic sampling off",
        lambda spec: not spec.algorithm.dynamic_sampling or spec.rollout.group_size > 1,
        "!self.?algorithm.?dynamicSampling.orValue(false) || self.?rollout.?groupSize.orValue(2) != 1",
    ),
    Rule(
        "algorithm.overlong.bufferTokens",
        "is not below rollout.maxResponseTokens, so every attempt would be punished: lower it or raise the other",
        lambda spec: (
            spec.algorithm.overlong is None or spec.algorithm.overlong.buffer_tokens < spec.rollout.max_response_tokens
        ),
        "!self.?algorithm.?overlong.?bufferTokens.hasValue() || !self.?rollout.?maxResponseTokens.hasValue()"
        " || self.algorithm.overlong.bufferTokens < self.rollout.maxResponseTokens",
    ),
    Rule(
        "rollout.maxConcurrent",
        "exceeds sandboxes.replicas, and every attempt holds a sandbox: raise the one or lower the other",
        lambda spec: spec.sandboxes.pool_ref is not None or spec.rollout.max_concurrent <= spec.sandboxes.replicas,
        "!has(self.rollout) || !has(self.rollout.maxConcurrent) || self.?sandboxes.?poolRef.hasValue()"
        " || self.rollout.maxConcurrent <= self.?sandboxes.?replicas.orValue(10000)",
    ),
    Rule(
        "rollout.maxTokensPerTurn",
        "exceeds rollout.maxResponseTokens, the whole attempt: lower it or raise the other",
        lambda spec: spec.rollout.max_tokens_per_turn <= spec.rollout.max_response_tokens,
        "!has(self.rollout) || !has(self.rollout.maxTokensPerTurn) || !has(self.rollout.maxResponseTokens)"
        " || self.rollout.maxTokensPerTurn <= self.rollout.maxResponseTokens",
    ),
    Rule(
        "inference.maxModelLen",
        "is below rollout.maxPromptTokens + rollout.maxResponseTokens, so attempts would be cut: raise it or unset it",
        _context_fits,
        "!has(self.inference) || !has(self.inference.maxModelLen) || self.inference.maxModelLen >="
        " self.?rollout.?maxPromptTokens.orValue(0) + self.?rollout.?maxResponseTokens.orValue(0)",
    ),
    Rule(
        "rollout.stepDeadlineSeconds",
        "is below agent.timeoutSeconds, so a slow attempt never counts: raise it or lower the other",
        lambda spec: (
            spec.rollout.step_deadline_seconds is None
            or spec.rollout.step_deadline_seconds >= spec.agent.timeout_seconds
        ),
        "!has(self.rollout) || !has(self.rollout.stepDeadlineSeconds)"
        " || self.rollout.stepDeadlineSeconds >= self.?agent.?timeoutSeconds.orValue(1)",
    ),
    Rule(
        "algorithm.minibatches",
        "exceeds rollout.groupsPerStep x rollout.groupSize, so some would be empty: lower it",
        lambda spec: spec.algorithm.minibatches <= spec.rollout.groups_per_step * spec.rollout.group_size,
        "!has(self.algorithm) || !has(self.algorithm.minibatches) || self.algorithm.minibatches <="
        " self.?rollout.?groupsPerStep.orValue(4096) * self.?rollout.?groupSize.orValue(1024)",
    ),
    Rule(
        "tasks.eval",
        "mode eval needs something to evaluate on: list at least one data set",
        lambda spec: spec.mode != "eval" or bool(spec.tasks.eval),
    ),
    Rule(
        "evaluation.everySteps",
        "asks for evaluation, but tasks.eval is empty: list a data set there, or unset this",
        lambda spec: (
            bool(spec.tasks.eval or "every_steps" not in spec.evaluation.model_fields_set)
            or spec.evaluation.every_steps == 0
        ),
    ),
    Rule(
        "tasks.train",
        "is required in mode rl: set it, or a preset that does; for example tasks: {train: {dataset: "
        "R2E-Gym/R2E-Gym-Subset}}",
        lambda spec: spec.mode != "rl" or spec.tasks.train is not None,
    ),
    Rule(
        "model.scratch",
        "learns its tokenizer from tasks.train, which is unset: set it, or name a model by model.name",
        lambda spec: spec.mode == "rl" or spec.model.scratch is None or spec.tasks.train is not None,
    ),
    Rule(
        "sft",
        "mode sft learns from recorded trajectories: list files of chats in sft.datasets, or directories of runs in "
        "sft.rollouts",
        lambda spec: spec.mode != "sft" or spec.sft is not None,
        "self.?mode.orValue('rl') != 'sft' || has(self.sft)",
    ),
    Rule(
        "sft",
        "is for mode: sft; what is imitated before reinforcement learning belongs in `warmup`",
        lambda spec: spec.mode == "sft" or spec.sft is None,
        "!has(self.sft) || self.?mode.orValue('rl') == 'sft'",
    ),
    Rule(
        "checkpoint.bestBy",
        "must be the `name` of a source in tasks.eval: give one this name, or unset it",
        lambda spec: (
            spec.checkpoint.best_by is None or spec.checkpoint.best_by in [source.name for source in spec.tasks.eval]
        ),
    ),
    Rule(
        "warmup.demonstrations",
        f"`scripted` needs an agent with a scripted solver ({', '.join(SCRIPTED_AGENTS)}): set agent.type to one of "
        "them, demonstrations to `dataset`, or warmup.steps to 0",
        _warmup_can_be_scripted,
        "self.?mode.orValue('rl') != 'rl' || self.?warmup.?demonstrations.orValue('dataset') != 'scripted'"
        f" || self.?agent.?type.orValue('short') in {list(SCRIPTED_AGENTS)}",
    ),
    Rule(
        "inference.placement",
        "`colocated` shares GPUs between trainer and engines, but trainer.device is cpu: use `separate`",
        lambda spec: spec.inference.placement != "colocated" or spec.trainer.device != "cpu",
        "self.?inference.?placement.orValue('separate') != 'colocated'"
        " || self.?trainer.?device.orValue('auto') != 'cpu'",
    ),
    Rule(
        "inference.weightSync",
        "`nccl` sends whole weights from GPU to GPU into vLLM pods of their own: use `disk` with trainer.device cpu, "
        "inference.engine transformers, trainer.lora.sync adapter, or another inference.placement than `separate`",
        lambda spec: (
            spec.inference.weight_sync != "nccl"
            or (
                spec.trainer.device != "cpu"
                and spec.inference.engine == "vllm"
                and spec.inference.placement == "separate"
                and (spec.trainer.lora is None or spec.trainer.lora.sync == "merged")
            )
        ),
        "self.?inference.?weightSync.orValue('disk') != 'nccl' || (self.?trainer.?device.orValue('auto') != 'cpu'"
        " && self.?inference.?engine.orValue('vllm') == 'vllm'"
        " && self.?inference.?placement.orValue('separate') == 'separate'"
        " && self.?trainer.?lora.?sync.orValue('merged') == 'merged')",
    ),
    Rule(
        "inference.weightSync",
        "`ipc` hands whole weights to engines on the trainer's own GPUs: use `disk` with another inference.placement "
        "than `colocated`, or with trainer.lora.sync adapter",
        lambda spec: (
            spec.inference.weight_sync != "ipc"
            or (
                spec.inference.placement == "colocated"
                and (spec.trainer.lora is None or spec.trainer.lora.sync == "merged")
            )
        ),
        "self.?inference.?weightSync.orValue('disk') != 'ipc'"
        " || (self.?inference.?placement.orValue('colocated') == 'colocated'"
        " && self.?trainer.?lora.?sync.orValue('merged') == 'merged')",
    ),
    Rule(
        "inference.weights",
        "`int4` is the frozen base under adapters of all linear layers, which vLLM is sent by themselves: set "
        "trainer.lora.base to int4, its sync to adapter, and no targetModules; or set this to full",
        lambda spec: (
            spec.inference.weights == "full"
            or (
                spec.inference.engine == "vllm"
                and spec.inference.placement != "external"
                and spec.trainer.lora is not None
                and (spec.trainer.lora.base, spec.trainer.lora.sync) == ("int4", "adapter")
                and not spec.trainer.lora.target_modules
            )
        ),
    ),
    Rule(
        "inference.retokenizeReplies",
        "gives tokens that the engine never sampled, whose experts trainer.replayRouting cannot replay: unset one",
        lambda spec: not (spec.inference.retokenize_replies and spec.trainer.replay_routing),
        "!self.?inference.?retokenizeReplies.orValue(false) || !self.?trainer.?replayRouting.orValue(false)",
    ),
    Rule(
        "inference.tensorParallel",
        "colocated engines take the trainer's GPUs: replicas x tensorParallel must equal trainer.replicas x "
        "trainer.processesPerReplica",
        lambda spec: (
            spec.inference.placement != "colocated"
            or spec.inference.replicas * spec.inference.tensor_parallel
            == spec.trainer.replicas * spec.trainer.processes_per_replica
        ),
    ),
    Rule(
        "inference.tensorParallel",
        "a colocated engine has its GPUs in one pod: it must divide trainer.processesPerReplica",
        lambda spec: (
            spec.inference.placement != "colocated"
            or spec.trainer.processes_per_replica % spec.inference.tensor_parallel == 0
        ),
    ),
    Rule(
        "maxGPUHours",
        "counts GPUs by resources.limits, and sees none that podOverrides.resourceClaims give: ask for them by limits, "
        "or unset it",
        lambda spec: (
            spec.max_gpu_hours is None
            or not any((pods.pod_overrides or {}).get("resourceClaims") for pods in (spec.trainer, spec.inference))
        ),
    ),
    Rule(
        "rollout.maxStaleness",
        "lets rollouts go on during training, but `colocated` engines sleep then: set it to 0, or inference.placement "
        "to `separate`",
        lambda spec: spec.rollout.max_staleness == 0 or spec.inference.placement != "colocated",
        "self.?rollout.?maxStaleness.orValue(0) == 0 || self.?inference.?placement.orValue('separate') != 'colocated'",
    ),
    Rule(
        "workloadPriorityClassName",
        "is a priority in a queue: name that in queueName, or remove this",
        lambda spec: spec.workload_priority_class_name is None or spec.queue_name is not None,
        "!has(self.workloadPriorityClassName) || has(self.queueName)",
    ),
    Rule(
        "sandboxes.runtime",
        "must be kubernetes when sandboxes.poolRef is set: remove one of the two",
        lambda spec: spec.sandboxes.pool_ref is None or spec.sandboxes.runtime in (None, "kubernetes"),
        "!has(self.sandboxes) || !has(self.sandboxes.poolRef)"
        " || self.?sandboxes.?runtime.orValue('kubernetes') == 'kubernetes'",
    ),
)
"""Every rule that spans sections."""
