"""What is trained on what: model, tasks, agent, rollouts, reward, evaluation."""

from typing import Annotated, Literal

from pydantic import Field

from sweyard_api.base import LINE_PATTERN, MAX_STEPS, DnsName, DottedName, ImportPath, Model, Seed, Tokens
from sweyard_api.rule import Rule

MAX_REWARD = 1e6
"""Beyond it, advantages and losses leave the range in which float32 is exact enough."""


class ScratchModel(Model):
    """A small Qwen3 with random weights and a byte-pair tokenizer learned from the tasks: for demos and tests."""

    layers: Annotated[int, Field(ge=1, le=64)] = 4
    """Decoder layers."""
    hidden_size: Annotated[int, Field(ge=64, le=8_192, multiple_of=64)] = 128
    """Width. Heads have 64 dimensions each, the least that vLLM's CPU attention takes."""
    vocabulary_size: Annotated[int, Field(ge=300, le=200_000)] = 512
    """Byte-pair vocabulary, special tokens included."""


class ModelSource(Model):
    """The policy's initial weights."""

    name: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Hub id, or a path inside the trainer pod or on the laptop."""
    revision: Annotated[str, Field(max_length=128)] | None = None
    """Commit, branch or tag on the hub."""
    scratch: ScratchModel | None = None
    """Make a small model instead of loading one."""
    token_secret: DottedName | None = None
    """Secret whose key `token` is the hub token."""

    rules = (
        Rule(
            "",
            "set exactly one of name (a hub id or path) and scratch (make a small model)",
            lambda model: (model.name is None) != (model.scratch is None),
            "!(has(self.name) && has(self.scratch))",
        ),
    )


class TaskSource(Model):
    """A selection from one data set."""

    dataset: Annotated[str, Field(min_length=1, max_length=512, pattern=LINE_PATTERN)]
    """A hub id (`org/name`), an absolute or ./relative path, or the plain name of a data set made by
    `sweyard tasks make` (on a cluster: the ConfigMap of that name, written by `sweyard tasks push`)."""
    name: DnsName | None = None
    """Name in metrics; default the data set's."""
    split: Annotated[str, Field(max_length=64)] | None = None
    """Split of a hub data set, or of one made by `sweyard tasks make` (train, heldout, unseen,
    practice)."""
    format: Literal[
        "auto",
        "sweyard",
        "swe-bench",
        "r2e-gym",
        "swe-smith",
        "swe-gym",
        "swe-rebench",
        "multi-swe",
        "kodcode",
        "harbor",
    ] = "auto"
    """Row schema."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Container image of tasks whose rows name none: KodCode's, and Harbor folders without docker_image."""
    ids: Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=1_000)] = []
    """Keep only these tasks."""
    repositories: Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=256)] = []
    """Keep only tasks of these repositories."""
    difficulties: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=16)] = []
    """Keep only tasks of these difficulties, as the data set calls them (`easy`; Verified has `<15 min fix`)."""
    limit: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Keep the first so many, after shuffling by `seed` if that is set."""
    seed: Seed | None = None
    """Shuffle with this seed."""


def _all_differ(names: list[str]) -> bool:
    return len(set(names)) == len(names)


class Tasks(Model):
    """Training and held-out tasks."""

    train: TaskSource | None = None
    """What rollouts are drawn from; required in mode rl. In any mode, a scratch model's tokenizer is learned from
    them."""
    eval: Annotated[list[TaskSource], Field(max_length=16)] = []
    """What evaluation runs on; each is reported apart."""

    @property
    def sources(self) -> list[TaskSource]:
        """Training and held-out ones."""
        return [*([self.train] if self.train else []), *self.eval]

    rules = (
        Rule(
            "eval",
            "two sources have the same name, so their figures would be mixed: give each its own `name`",
            lambda tasks: _all_differ([source.name for source in tasks.eval if source.name]),
            "!has(self.eval) || self.eval.all(a, !has(a.name)"
            " || self.eval.exists_one(b, has(b.name) && b.name == a.name))",
        ),
    )


class Agent(Model):
    """Who acts in a sandbox."""

    type: Literal["r2e", "bash", "pdb", "rewrite", "short", "cli", "custom"] = "r2e"
    """`r2e`: file_editor, execute_bash, search, finish. `bash`: one shell tool. `pdb`: file_editor, search, finish and
    a debugger that stays alive between calls. `rewrite`: view, search, rewrite, finish. `short`: one-line calls that
    a very small model can write. `cli`: the program that `command` starts, which speaks to the gateway itself.
    `custom`: the one that `factory` makes."""
    max_turns: Annotated[int, Field(ge=1, le=1_000)] = 50
    """Turns before the attempt ends as max_turns."""
    step_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 90
    """One command in the sandbox."""
    timeout_seconds: Annotated[int, Field(ge=1, le=604_800)] = 5_400
    """The whole attempt, grading aside."""
    shell: bool = False
    """Give a `pdb` or `rewrite` agent execute_bash too."""
    native_calls: bool = False
    """Offer an `r2e` agent's tools by the model's chat template, and take calls in the form that this teaches (Hermes'
    or Qwen3-Coder's), instead of describing both in the prompt."""
    command: Annotated[list[Annotated[str, Field(max_length=4_096)]], Field(max_length=64)] = []
    """Words that start a `cli` agent in its sandbox, where it must be installed. Replaced in each: {prompt},
    {prompt_file}, {home}, {directory}, {url} (of the gateway, without /v1), {token} and {model}."""
    environment: Annotated[dict[str, Annotated[str, Field(max_length=4_096)]], Field(max_length=64)] = {}
    """Variables of a `cli` agent beside HOME and {OPENAI,ANTHROPIC}_{BASE_URL,API_KEY,MODEL}, with the same
    replacements."""
    files: Annotated[dict[str, Annotated[str, Field(max_length=65_536)]], Field(max_length=16)] = {}
    """Files that a `cli` agent finds in its home, which is empty otherwise: path to text, with the same
    replacements."""
    factory: ImportPath | None = None
    """Your own agent, as `pkg.module:name`: a function of this section that returns one (agents/protocol.py)."""

    rules = (
        Rule(
            "factory",
            "must be set if and only if agent.type is `custom`",
            lambda agent: (agent.factory is not None) == (agent.type == "custom"),
            "!has(self.factory) || !has(self.type) || self.type == 'custom'",
        ),
        Rule(
            "command",
            "must be set if and only if agent.type is `cli`",
            lambda agent: bool(agent.command) == (agent.type == "cli"),
            "!has(self.command) || size(self.command) == 0 || !has(self.type) || self.type == 'cli'",
        ),
        Rule(
            "environment",
            "environment and files are for agent.type `cli`: leave them out",
            lambda agent: agent.type == "cli" or not (agent.environment or agent.files),
            "(has(self.type) && self.type == 'cli') || ((!has(self.environment) || size(self.environment) == 0) && "
            "(!has(self.files) || size(self.files) == 0))",
        ),
        Rule(
            "shell",
            "is for agent.type `pdb` and `rewrite`; the others have a shell or have none: leave it out",
            lambda agent: not agent.shell or agent.type in ("pdb", "rewrite"),
            "!has(self.shell) || !self.shell || !has(self.type) || self.type in ['pdb', 'rewrite']",
        ),
        Rule(
            "nativeCalls",
            "is for agent.type `r2e`: leave it out",
            lambda agent: not agent.native_calls or agent.type == "r2e",
            "!has(self.nativeCalls) || !self.nativeCalls || !has(self.type) || self.type == 'r2e'",
        ),
    )


class Rollout(Model):
    """How attempts are sampled."""

    groups_per_step: Annotated[int, Field(ge=1, le=4_096)] = 8
    """Tasks a step."""
    group_size: Annotated[int, Field(ge=1, le=1_024)] = 8
    """Attempts at each task."""
    max_prompt_tokens: Tokens = 4_096
    """Longer first prompts are left out."""
    max_response_tokens: Tokens = 32_768
    """Tokens an attempt may add to its prompt, observations included."""
    max_tokens_per_turn: Tokens = 4_096
    """Tokens of one reply. Resolves to maxResponseTokens where that is less and this is unset."""
    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Sampling temperature; logprobs are of this distribution."""
    max_staleness: Annotated[int, Field(ge=0, le=64)] = 0
    """Weight versions between the begin of an attempt and its training. 0 is strictly on-policy; more let the rollouts
    of later steps go on while a step is trained, and attempts under way go on under new weights."""
    max_concurrent: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Attempts at once, hence sandboxes held at once. Resolves to sandboxes.replicas where that is set and this is
    not."""
    workers: Annotated[int, Field(ge=1, le=1_024)] = 1
    """Rollout worker processes."""
    infra_retries: Annotated[int, Field(ge=0, le=16)] = 2
    """Fresh sandboxes tried after an infrastructure failure before the attempt is masked."""
    step_deadline_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = None
    """After this long a step trains without its stragglers; those that maxStaleness allows are finished for a later
    one. It counts anew when engines serve again, of which there were none. Resolves to agent.timeoutSeconds plus
    reward.timeoutSeconds."""


class Reward(Model):
    """Who says that a task is solved."""

    grading: Literal["strict", "official"] = "strict"
    """`official` is the data set's own rule; `strict` also demands what a forged log cannot show."""
    timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300
    """Grading of one attempt, and then `function`."""
    solved: Annotated[float, Field(ge=-MAX_REWARD, le=MAX_REWARD)] = 1.0
    """Reward of a solved attempt."""
    unsolved: Annotated[float, Field(ge=-MAX_REWARD, le=MAX_REWARD)] = 0.0
    """Reward of any other graded attempt."""
    function: ImportPath | None = None
    """Your own reward, as `pkg.module:name`: a function of (task, attempt) that returns a number. The outcome, hence
    evaluation, stays the grader's."""
    verify_tasks: bool = True
    """Before its first use a task must score 1 with the gold patch and 0 with the empty one."""

    rules = (
        Rule(
            "solved",
            "must exceed reward.unsolved, else training rewards failure",
            lambda reward: reward.solved > reward.unsolved,
            "!has(self.solved) || !has(self.unsolved) || self.solved > self.unsolved",
        ),
    )


class Evaluation(Model):
    """Held-out tasks, before, during and after training."""

    every_steps: Annotated[int, Field(ge=0, le=MAX_STEPS)] = 10
    """0: only before and after. In mode rl these go on beside the next step's attempts, under the same weights. What is
    left then is waited for before that step trains or, with rollout.maxStaleness above 0, before its weights reach an
    engine. A checkpoint of the evaluated weights is taken."""
    attempts: Annotated[int, Field(ge=1, le=1_024)] = 1
    """Attempts at each task. With several, pass@k is reported for 1, 2, 4 and so on up to all of them."""
    temperature: Annotated[float, Field(ge=0, le=10)] = 1.0
    """0 is greedy."""
    verifier: Literal["regression", "none"] = "regression"
    """Who chooses among several attempts at a task, for best@k: `regression` takes the patch with which most of the
    tests pass that passed before; tests that the task is about are not run. Each different patch is run once more."""
    at_start: bool = True
    """Evaluate the untrained policy and, with a warm-up, the warmed-up one."""

    rules = (
        Rule(
            "attempts",
            "with evaluation.temperature 0 all attempts at a task are the same one: set it to 1 or raise the other",
            lambda evaluation: evaluation.attempts == 1 or evaluation.temperature > 0,
            "!has(self.attempts) || self.attempts == 1 || !has(self.temperature) || self.temperature > 0.0",
        ),
    )
