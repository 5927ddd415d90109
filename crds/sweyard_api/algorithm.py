"""The learning rule: estimator, loss, optimizer, and what happens to each outcome."""

from typing import Annotated, Literal

from pydantic import Field

from sweyard_api.base import Model
from sweyard_api.rule import Rule
from sweyard_api.workload import TaskSource


class KlPenalty(Model):
    """Distance to the reference policy (the model as it was when RL began)."""

    coefficient: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Weight; 0 keeps no reference policy in memory."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """Schulman's estimators (joschu.net/blog/kl-approx.html)."""
    placement: Literal["loss", "reward"] = "loss"
    """Where the penalty is added."""


class ImportanceCorrection(Model):
    """Truncated importance sampling between the policy that sampled and the one that is trained."""

    level: Literal["none", "token", "sequence"] = "token"
    """Ratio per token, per sequence, or no correction."""
    cap: Annotated[float, Field(gt=1, le=100)] = 2.0
    """Ratios above this are truncated to it."""


class Algorithm(Model):
    """Group-based policy gradient with every knob the known recipes use."""

    estimator: Literal["grpo", "rloo", "dr_grpo", "reinforce_plus_plus", "gspo"] = "grpo"
    """Advantage estimator."""
    normalize_by_std: bool = True
    """Divide group advantages by their standard deviation (GRPO). Resolves to false for dr_grpo and rloo, whose
    definitions have no such division."""
    clip_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """PPO clip below: ratio >= 1 - clipLow."""
    clip_high: Annotated[float, Field(gt=0, lt=10)] = 0.2
    """PPO clip above: ratio <= 1 + clipHigh (DAPO and DeepSWE use 0.28)."""
    dual_clip: Annotated[float, Field(gt=1, le=100)] | None = None
    """Bound on the loss of negative advantages (arXiv 1912.09729)."""
    kl: KlPenalty = KlPenalty()
    """Penalty towards the reference policy."""
    entropy_coefficient: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Bonus for entropy."""
    loss_aggregation: Literal["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum", "constant"] = (
        "token_mean"
    )
    """How token losses become one number."""
    loss_constant: Annotated[int, Field(ge=1)] | None = None
    """Divisor for `constant` aggregation; default maxResponseTokens."""
    importance_correction: ImportanceCorrection = ImportanceCorrection()
    """Correction for the difference between engine and trainer, and for staleness."""
    dynamic_sampling: bool = False
    """Drop groups whose rewards are all equal and sample others in their place."""
    max_refills: Annotated[int, Field(ge=0, le=100)] = 4
    """How often a step may refill dropped groups before it trains on what it has."""
    mask_outcomes: Annotated[
        list[Literal["truncated", "max_turns", "agent_timeout", "agent_error"]], Field(max_length=8)
    ] = []
    """Outcomes that keep their reward in the baseline but add no loss (compact filtering).
    Infrastructure failures are always left out of everything."""
    epochs_per_batch: Annotated[int, Field(ge=1, le=16)] = 1
    """Passes over each batch."""
    minibatches: Annotated[int, Field(ge=1, le=256)] = 1
    """Optimizer steps per pass."""

    rules = (
        Rule(
            "lossConstant",
            "only divides with lossAggregation: constant; set that or remove it",
            lambda algorithm: algorithm.loss_constant is None or algorithm.loss_aggregation == "constant",
            "!has(self.lossConstant) || !has(self.lossAggregation) || self.lossAggregation == 'constant'",
        ),
        Rule(
            "normalizeByStd",
            "dr_grpo and rloo do not divide by the standard deviation: set it to false or use estimator: grpo",
            lambda algorithm: not (algorithm.normalize_by_std and algorithm.estimator in ("dr_grpo", "rloo")),
            "!has(self.normalizeByStd) || !has(self.estimator) || !self.normalizeByStd"
            " || !(self.estimator in ['dr_grpo', 'rloo'])",
        ),
    )


class Optimizer(Model):
    """AdamW."""

    learning_rate: Annotated[float, Field(gt=0, le=1)] = 1e-6
    """Peak learning rate."""
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Decoupled weight decay."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """First moment."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Second moment."""
    epsilon: Annotated[float, Field(gt=0, le=1)] = 1e-8
    """Added to the denominator."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Clip gradients to this norm."""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Linear warm-up."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """What the rate does after warm-up."""


class Warmup(Model):
    """Supervised steps on demonstrations before RL begins."""

    steps: Annotated[int, Field(ge=0, le=1_000_000)]
    """Optimizer steps; 0 switches off a preset's warm-up."""
    batch_size: Annotated[int, Field(ge=1, le=65_536)] = 32
    """Demonstrations a step."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 1e-3
    """Peak learning rate of this phase."""
    demonstrations: Literal["scripted", "dataset"] = "scripted"
    """`scripted`: the agent's scripted solver plays tasks. `dataset`: trajectories from a file."""
    tasks: TaskSource | None = None
    """Tasks that the scripted solver plays, default the training tasks. They are not graded, so they may be
    unverified ones (split `practice` of `sweyard tasks make --practice N`)."""
    dataset: Annotated[str, Field(max_length=512)] | None = None
    """Trajectories in chat format (JSONL or Parquet), for `demonstrations: dataset`."""
    correct_fraction: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of scripted demonstrations that solve the task; below 1 leaves RL something to learn."""

    rules = (
        Rule(
            "dataset",
            "must be set if and only if warmup.demonstrations is `dataset`",
            lambda warmup: (warmup.demonstrations == "dataset") == (warmup.dataset is not None),
            "!has(self.demonstrations) || self.demonstrations != 'scripted' || !has(self.dataset)",
        ),
    )
