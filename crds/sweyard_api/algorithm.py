"""The learning rule: estimator, loss, optimizer, and what happens to each outcome."""

from typing import Annotated, Literal

from pydantic import Field

from sweyard_api.base import MAX_STEPS, ImportPath, Model, Tokens
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
    """Importance sampling between the policy that sampled and the one that is trained: engine and staleness in one."""

    level: Literal["none", "token", "sequence", "geometric"] = "token"
    """Ratio of each token, product over a sequence, geometric mean over a sequence, or no correction."""
    mode: Literal["truncate", "mask"] = "truncate"
    """`truncate`: ratios above `cap` become it. `mask`: tokens whose ratio is outside of floor to cap add no loss."""
    cap: Annotated[float, Field(gt=1, le=100)] = 2.0
    """Highest ratio."""
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Lowest ratio, for `mode: mask`."""

    rules = (
        Rule(
            "floor",
            "masks ratios below it, which only mode: mask does; set that or remove it",
            lambda correction: correction.floor == 0 or correction.mode == "mask",
            "!has(self.floor) || self.floor == 0.0 || !has(self.mode) || self.mode == 'mask'",
        ),
    )


class Overlong(Model):
    """Soft punishment of long attempts (DAPO, arXiv 2503.14476, equation 13), taken off their reward."""

    buffer_tokens: Tokens = 4_096
    """The punishment grows over so many tokens up to rollout.maxResponseTokens."""
    penalty: Annotated[float, Field(ge=0, le=100)] = 1.0
    """At the end of the buffer; 0 switches it off."""


OutcomeName = Literal["solved", "unsolved", "truncated", "max_turns", "agent_timeout", "agent_error"]
"""Outcomes whose treatment can be chosen; infrastructure failures are always left out of everything."""


class Algorithm(Model):
    """Group-based policy gradient with every knob the known recipes use."""

    estimator: Literal[
        "grpo", "rloo", "dr_grpo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "gspo", "cispo", "custom"
    ] = "grpo"
    """Advantage estimator. gspo and cispo are grpo's advantages with a loss of their own (ratios of whole sequences;
    clipped weights instead of clipped gradients); `custom` is `estimatorFunction`."""
    estimator_function: ImportPath | None = None
    """Your own estimator, as `pkg.module:name`: a function of the groups' rewards that returns their advantages."""
    group_filter: ImportPath | None = None
    """Your own filter, as `pkg.module:name`: a function of a group's attempts, true if they are to be trained on."""
    normalize_by_std: bool = True
    """Divide group advantages by their standard deviation (grpo, gspo, cispo). Resolves to false for dr_grpo and
    rloo, whose definitions have no such division."""
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
    loss_constant: Tokens | None = None
    """Divisor for `constant` aggregation; default maxResponseTokens."""
    importance_correction: ImportanceCorrection = ImportanceCorrection()
    """Correction for the difference between engine and trainer, and for staleness."""
    max_engine_kl: Annotated[float, Field(gt=0, le=100)] = 0.3
    """Most nats a token that the engine's log-probabilities may be away from the trainer's on the same weights; beyond,
    the trainer ends. Kernels and bfloat16 explain thousandths, wrong weights whole nats. Of stale tokens, which other
    weights sampled, it only warns."""
    dynamic_sampling: bool = False
    """Drop groups whose rewards are all equal and sample others in their place."""
    max_refills: Annotated[int, Field(ge=0, le=100)] = 4
    """How often a step may refill dropped groups before it trains on what it has."""
    overlong: Overlong | None = None
    """Soft punishment of long attempts."""
    mask_outcomes: Annotated[list[OutcomeName], Field(max_length=8)] = []
    """Outcomes that keep their reward in the baseline but add no loss (compact filtering).
    Infrastructure failures are always left out of everything."""
    drop_outcomes: Annotated[list[OutcomeName], Field(max_length=8)] = []
    """Outcomes that are in no baseline and add no loss, as though they had never been sampled."""
    epochs_per_batch: Annotated[int, Field(ge=1, le=16)] = 1
    """Passes over each batch."""
    minibatches: Annotated[int, Field(ge=1, le=256)] = 1
    """Optimizer steps per pass."""

    rules = (
        Rule(
            "estimatorFunction",
            "must be set if and only if algorithm.estimator is `custom`",
            lambda algorithm: (algorithm.estimator_function is not None) == (algorithm.estimator == "custom"),
            "!has(self.estimatorFunction) || !has(self.estimator) || self.estimator == 'custom'",
        ),
        Rule(
            "dropOutcomes",
            "names an outcome that maskOutcomes names too: an attempt is masked or dropped, so leave it in one of them",
            lambda algorithm: not set(algorithm.drop_outcomes) & set(algorithm.mask_outcomes),
            "!has(self.dropOutcomes) || !has(self.maskOutcomes)"
            " || self.dropOutcomes.all(outcome, !(outcome in self.maskOutcomes))",
        ),
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
    max_grad_norm: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    """Clip gradients to this norm."""
    warmup_steps: Annotated[int, Field(ge=0, le=MAX_STEPS)] = 0
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
    """Trajectories in chat format, for `demonstrations: dataset`: a file (.jsonl, .jsonl.gz, .parquet), or a hub id."""
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
