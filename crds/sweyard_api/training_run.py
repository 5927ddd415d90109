"""TrainingRun: one training job, from model and tasks to a rising reward."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sweyard_api.algorithm import Algorithm, Optimizer, Warmup
from sweyard_api.base import MAX_SECONDS, MAX_STEPS, DnsName, DottedName, Model, Seed
from sweyard_api.inference import Inference
from sweyard_api.infrastructure import Checkpoint, Images, Logging, Restart, Sandboxes, Storage, Trainer
from sweyard_api.kubernetes_types import Conditions
from sweyard_api.rule import Rule
from sweyard_api.run_rules import RUN_RULES
from sweyard_api.sft import Sft
from sweyard_api.workload import Agent, Evaluation, ModelSource, Reward, Rollout, Tasks


class TrainingRunSpec(Model):
    """What to train. Also the resolved config: preset, explicit fields and defaults merged into one."""

    preset: Annotated[str, Field(max_length=63)] | None = None
    """Named recipe whose values fill what is not set here; `sweyard presets` lists them."""
    mode: Literal["rl", "sft", "eval"] = "rl"
    """Reinforcement learning, supervised fine-tuning, or evaluation alone."""
    steps: Annotated[int, Field(ge=0, le=MAX_STEPS)] = 100
    """Optimizer steps of the main phase."""
    seed: Seed = 0
    """Seeds everything that draws."""
    model: ModelSource
    """The policy's initial weights."""
    tasks: Tasks = Tasks()
    """Training and held-out tasks."""
    agent: Agent = Agent()
    """Who acts in a sandbox."""
    rollout: Rollout = Rollout()
    """How attempts are sampled."""
    reward: Reward = Reward()
    """Who says that a task is solved."""
    warmup: Warmup | None = None
    """Supervised steps before RL."""
    sft: Sft | None = None
    """What mode sft learns from."""
    algorithm: Algorithm = Algorithm()
    """Advantages and loss."""
    optimizer: Optimizer = Optimizer()
    """AdamW."""
    trainer: Trainer = Trainer()
    """The learner's pods and parallelism."""
    inference: Inference = Inference()
    """The engines."""
    sandboxes: Sandboxes = Sandboxes()
    """The pool of sandboxes."""
    images: Images = Images()
    """The cache of task images."""
    evaluation: Evaluation = Evaluation()
    """Held-out tasks."""
    checkpoint: Checkpoint = Checkpoint()
    """What survives."""
    storage: Storage = Storage()
    """The run's volume."""
    restart: Restart = Restart()
    """What happens when the trainer dies."""
    logging: Logging = Logging()
    """Where metrics go."""
    suspend: bool = False
    """Checkpoint, then free everything; false again to go on from there."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] | None = None
    """The run fails after this long, restarts included."""
    max_gpu_hours: Annotated[Annotated[float, Field(gt=0, le=1e9)] | None, Field(alias="maxGPUHours")] = None
    """GPUs of trainer and engines times the hours that they are held: once so much is spent, the trainer writes a
    checkpoint and the run fails. The condition GPUBudgetLow tells of the last tenth."""
    placement_deadline_seconds: Annotated[int, Field(ge=10, le=86_400)] = 900
    """Pods that cannot all be placed, or made, within so long are all let go, and the run tries again after a growing
    pause."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=MAX_SECONDS)] | None = None
    """A finished run is deleted, with all that belongs to it, after this long."""
    queue_name: DnsName | None = None
    """Kueue queue: the run starts suspended and waits to be admitted."""
    workload_priority_class_name: DottedName | None = None
    """Kueue's WorkloadPriorityClass of the run: its place in the queue, and who gives way to whom. Default: the
    priority of trainer.priorityClassName, which also counts on the nodes."""

    rules: ClassVar[tuple[Rule, ...]] = RUN_RULES

    @property
    def training_steps(self) -> int:
        """Steps that there will be: none where nothing is trained."""
        return 0 if self.mode == "eval" else self.steps


MAX_SENTENCE_CHARACTERS = 1_024
_METRIC_NAMES = {"rule": "self.all(name, size(name) <= 256)", "message": "names have at most 256 characters"}

Figures = Annotated[
    dict[str, float], Field(max_length=64, json_schema_extra={"x-kubernetes-validations": [_METRIC_NAMES]})
]
"""By name. Bounded as all that a trainer writes: a status that etcd has no room for could not be written any more, and
a run would never be told to be over."""


class TrainerStatus(Model):
    """Written by the trainer alone, by server-side apply."""

    attempt: int = 0
    """Attempt that wrote this."""
    phase: Literal["starting", "warmup", "rl", "sft", "evaluating", "finished"] = "starting"
    """What it is doing."""
    step: int = 0
    """Optimizer steps of the main phase done."""
    total_steps: int = 0
    """Of how many."""
    weight_version: int = 0
    """Version that the engines serve."""
    engines: Annotated[int, Field(ge=1)] | None = None
    """Engines that it uses and asks for, with inference.scaling."""
    progress_percentage: Annotated[int, Field(ge=0, le=100)] = 0
    """Share done, warm-up and evaluation included."""
    estimated_remaining_seconds: int | None = None
    """Time left at the present pace."""
    metrics: Figures = {}
    """rewardMean, solvedFraction, tokensPerSecond, infraFailureFraction, and each evaluation's solved fraction."""
    last_checkpoint: Annotated[str, Field(max_length=4_096)] | None = None
    """Path of the last complete checkpoint, relative to the run's volume, or its URL."""
    last_checkpoint_step: int | None = None
    """Step it was taken after."""
    best_checkpoint_step: int | None = None
    """Step after which checkpoint.bestBy was solved best; its checkpoint is kept."""
    updated_at: Annotated[str, Field(max_length=64)] = ""
    """RFC 3339 time of this report."""
    report_every_seconds: Annotated[int, Field(ge=1)] | None = None
    """It reports again within so long, also when there is no news; unset by one that promises nothing."""
    message: Annotated[str, Field(max_length=MAX_SENTENCE_CHARACTERS)] = ""
    """A sentence for people."""


class FailedAttempt(Model):
    """How an attempt of the trainer failed."""

    attempt: int
    """Which one."""
    step: int | None = None
    """Optimizer steps that it had reported; unset if it ended before its first report."""
    reason: str
    """In one word: OOMKilled, AcceleratorOutOfMemory, Evicted, Exited, Stalled, ..."""
    message: str
    """The pod that failed first, and the last lines of its log."""


class GpuUsage(Model):
    """GPUs that the run's pods hold, counted by their limits; what they get by resource claims is not seen."""

    gpu_hours: Annotated[float, Field(ge=0)] = 0.0
    """Spent until `countedAt`."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """Held since then."""
    counted_at: str
    """RFC 3339 time of the count; once a minute, and when `gpus` changes."""


class TrainingRunStatus(Model):
    """What the run is doing, for people and machines."""

    observed_generation: int | None = None
    """Generation of the spec that this status speaks of."""
    phase: str = ""
    """One word for `kubectl get`: Pending, Images, Sandboxes, Inference, Starting, Running, Evaluating, Restarting,
    Suspending, Suspended, Succeeded, Failed. Machines should read the conditions."""
    step: int = 0
    """Copied from the trainer's report for printing."""
    total_steps: int = 0
    """Copied likewise."""
    progress_percentage: int = 0
    """Copied likewise."""
    estimated_remaining_seconds: int | None = None
    """Copied likewise."""
    metrics: Annotated[dict[str, float], Field(max_length=64)] = {}
    """Copied likewise."""
    last_checkpoint: str | None = None
    """Copied likewise."""
    attempts: int = 0
    """Trainer gangs started: the first, each restart, and each start after a suspension."""
    restarts: int = 0
    """Times the trainer gang was started again."""
    placement_failures: int | None = None
    """Times in a row that the pods could not all be placed."""
    usage: GpuUsage | None = None
    """What the run has cost."""
    last_failure: FailedAttempt | None = None
    """The last attempt that failed; it stays while the next one runs."""
    start_time: str | None = None
    """When the run began."""
    completion_time: str | None = None
    """When it ended."""
    trainer: TrainerStatus | None = None
    """The trainer's own report."""
    conditions: Conditions = []
    """ImagesReady, SandboxesReady, InferenceReady, TrainerReady, Progressing, Succeeded, Failed, Suspended; while
    that is so also InvalidSpec and Unplaced, and GPUBudgetLow with maxGPUHours."""
