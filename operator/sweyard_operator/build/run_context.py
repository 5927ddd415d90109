"""What every manifest of a run is built from: whose it is, its resolved config, and the operator's own settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, ValidationError

from sweyard_api.base import Model
from sweyard_api.constants import API_VERSION, GROUP, LABEL_COMPONENT, LABEL_RUN
from sweyard_api.training_run import TrainingRunSpec
from sweyard_operator.plan.pod_set_choices import PodSetChoice

COMPONENT_TRAINER = "trainer"
COMPONENT_ENGINE = "engine"
COMPONENT_GATEWAY = "gateway"
COMPONENT_SANDBOX = "sandbox"

LABEL_RUN_UID = f"{GROUP}/run-uid"
"""UID of the TrainingRun: a recreated run of the same name never counts its predecessor's pods as its own."""
LABEL_ATTEMPT = f"{GROUP}/attempt"
"""Attempt that a trainer Job and its pods belong to."""
ANNOTATION_RESTARTS = f"{GROUP}/restarts"
"""On a trainer Job: restarts counted when it was started; with the status, the ledger of the restart budget."""
ANNOTATION_STALLED = f"{GROUP}/stalled"
"""On a trainer Job that is told to end since its trainer hangs: for how long."""
ANNOTATION_ENGINE_LET_GO = f"{GROUP}/engine-let-go-at"
"""On the StatefulSet of engines: when one last went since there was no room for all of its pods."""

ENV_GATEWAY_URL = "SWEYARD_GATEWAY_URL"
"""Of trainers: where sandboxes find the gateway."""


class Development(Model):
    """Run components from directories of the node instead of from built images; never for production."""

    image: Annotated[str, Field(min_length=1)]
    """Image of every pod of a run; needs only what the interpreter below needs."""
    python: Annotated[str, Field(min_length=1)]
    """Interpreter inside one of the host paths, as an absolute path."""
    host_paths: Annotated[list[Annotated[str, Field(pattern="^/")]], Field(min_length=1)]
    """Directories of the node, mounted read-only at the same path."""
    run_as_user: Annotated[int, Field(ge=0)] = 0
    """User id of the pods; root by default, since the directories may be readable by root alone."""


@dataclass(frozen=True)
class ApiServerEndpoint:
    """One address and port that reaches the API server, for the trainer's egress rule."""

    address: str
    port: int


@dataclass(frozen=True)
class RunSettings:
    """What the operator's own environment says about the pods of runs."""

    trainer_image: str
    """Image of all components where the run names none; it holds vLLM too."""
    development: Development | None = None
    api_server: tuple[ApiServerEndpoint, ...] = ()
    """Service address and endpoints; before and after address translation, since network plugins differ."""

    @property
    def python(self) -> str:
        return self.development.python if self.development else "python"

    def image(self, preferred: str | None) -> str:
        """The image of a component: the node's own in development, else the run's, else the chart's."""
        return self.development.image if self.development else preferred or self.trainer_image


@dataclass(frozen=True)
class RunContext:
    """A run as builders see it."""

    name: str
    namespace: str
    uid: str
    config: TrainingRunSpec
    choices: Mapping[str, PodSetChoice] = field(default_factory=dict)
    """By component, of an admitted run: what its admission gives the pods."""

    def choice(self, component: str) -> PodSetChoice:
        """What the admission gives the pods of one component; nothing where there is none."""
        return self.choices.get(component, PodSetChoice())

    @property
    def pool(self) -> str:
        """Name of the RolloutPool that the run's sandboxes come from."""
        return self.config.sandboxes.pool_ref or self.name

    @property
    def claim(self) -> str:
        """Name of the PersistentVolumeClaim that the run's pods mount."""
        return self.config.storage.claim_name or self.name

    @property
    def makes_attempts(self) -> bool:
        """Whether agents work at all: who learns from recorded trajectories alone needs no engine and no sandbox."""
        return self.config.mode != "sft" or bool(self.config.tasks.eval)

    @property
    def has_engines(self) -> bool:
        """Whether the run has engine pods of its own."""
        return self.has_gateway and self.config.inference.placement == "separate"

    @property
    def has_gateway(self) -> bool:
        """Whether the run has a gateway pod; an engine embedded in the trainer can be reached by nobody else."""
        return self.makes_attempts and self.config.inference.engine == "vllm"

    @property
    def has_pool(self) -> bool:
        """Whether the run has sandboxes, and these are pods."""
        return self.makes_attempts and self.config.sandboxes.runtime in (None, "kubernetes")

    @property
    def trainer_computes(self) -> bool:
        """Whether the trainer's pods use accelerators: in an evaluation only for engines that are in them."""
        return self.config.mode != "eval" or self.config.inference.placement == "colocated"

    @property
    def trainer_replicas(self) -> int:
        """Pods of the trainer: of those without a model to train, no more than have a rollout worker."""
        trainer = self.config.trainer
        return trainer.replicas if self.trainer_computes else min(trainer.replicas, self.config.rollout.workers)

    @property
    def owns_pool(self) -> bool:
        return self.has_pool and self.config.sandboxes.pool_ref is None


def parse_development(text: str) -> Development | None:
    """The operator's SWEYARD_DEVELOPMENT, a JSON object; None if it is empty. Raises ValueError with a sentence."""
    if not text:
        return None
    try:
        return Development.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"SWEYARD_DEVELOPMENT: {where or 'value'}: {first['msg']}; see Development") from error


def component_labels(run: RunContext, component: str) -> dict[str, str]:
    """Labels of one component's objects and pods."""
    return {LABEL_RUN: run.name, LABEL_RUN_UID: run.uid, LABEL_COMPONENT: component}


def pod_selector(run: RunContext, component: str) -> dict[str, str]:
    """What selects one component's pods."""
    return {LABEL_RUN: run.name, LABEL_COMPONENT: component}


def owned_metadata(run: RunContext, name: str, component: str | None = None) -> dict[str, Any]:
    """Metadata of an object that is garbage-collected with the run."""
    labels = component_labels(run, component) if component else {LABEL_RUN: run.name, LABEL_RUN_UID: run.uid}
    owner = {
        "apiVersion": API_VERSION,
        "kind": "TrainingRun",
        "name": run.name,
        "uid": run.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {"name": name, "namespace": run.namespace, "labels": labels, "ownerReferences": [owner]}
