"""Workers as a run's config and environment ask for them."""

import secrets
from collections.abc import Sequence

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.grading.cache import GradingCache
from sweyard_sandbox.grading.extract import extract_work
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.prepared import PreparedSandboxes
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import EmbeddedEngine, Engine
from sweyard_trainer.environment import Environment
from sweyard_trainer.gateway.build import engine_for, gateway_for, renderer_for
from sweyard_trainer.gateway.client import GatewayClient, HttpGateway, InProcessGateway
from sweyard_trainer.rollout.attempt import AttemptRules, Workbench
from sweyard_trainer.rollout.reward import load_reward
from sweyard_trainer.rollout.rules import step_deadline_seconds
from sweyard_trainer.rollout.runtimes import make_worker_runtime
from sweyard_trainer.rollout.traces import Tracer, no_trace
from sweyard_trainer.rollout.worker import LocalWorker, Worker

PATIENCE = 4.0
"""How much longer a task may take when its verification is tried again."""


async def make_workers(spec: TrainingRunSpec, environment: Environment) -> list[Worker]:
    """One worker lives in this process; more are Ray actors, each with a holder of its own."""
    if spec.rollout.workers == 1:
        return [await make_local_worker(spec, environment, 0)]
    from sweyard_trainer.rollout.ray_worker import RayWorker

    return [RayWorker(spec, environment, index) for index in range(spec.rollout.workers)]


async def make_local_worker(spec: TrainingRunSpec, environment: Environment, index: int) -> LocalWorker:
    """Worker `index` of the run, in this process."""
    runtime = await make_worker_runtime(spec, environment)
    embedded = make_embedded_engines(spec, environment)
    cache = GradingCache(runtime, timeout_seconds=float(spec.reward.timeout_seconds))
    patient = GradingCache(runtime, timeout_seconds=PATIENCE * spec.reward.timeout_seconds)
    regressions = GradingCache(runtime, timeout_seconds=float(spec.reward.timeout_seconds))
    endpoint = spec.logging.trace_endpoint
    tracer = Tracer.to(endpoint, environment.run) if endpoint else None
    bench = Workbench(
        runtime=runtime,
        gateway=make_gateway_client(spec, environment, embedded),
        agent=make_agent(spec.agent),
        acquire=PreparedSandboxes(runtime).acquire,
        extract_patch=_work_text,
        grade=cache.grade,
        grade_patiently=patient.grade,
        grade_regressions=regressions.grade,
        trace=tracer.trace if tracer else no_trace,
    )
    return LocalWorker(bench, attempt_rules(spec), environment.storage / "weights", embedded, _nonce, tracer)


def make_embedded_engines(spec: TrainingRunSpec, environment: Environment) -> Sequence[EmbeddedEngine]:
    """One in this process, unless engines are servers."""
    if environment.engine_urls:
        return []
    from sweyard_trainer.engine.embedded import TransformersEngine  # imports PyTorch

    return [TransformersEngine.load(environment.storage / "model", max_batch=min(64, spec.rollout.max_concurrent))]


def make_gateway_client(
    spec: TrainingRunSpec, environment: Environment, embedded: Sequence[EmbeddedEngine]
) -> GatewayClient:
    """To the gateway of a cluster, or to one in this process. Raises TemplateUnfitError."""
    model = environment.storage / "model"
    if environment.gateway_admin_url:
        if spec.agent.native_calls:
            renderer_for(spec, model)  # the gateway's own refusal would be seen by nobody
        return HttpGateway(
            environment.gateway_url,
            environment.gateway_admin_url,
            environment.engine_urls,
            lineage=str(environment.attempt),
            new_token=_nonce,
        )
    engines: list[Engine] = [*embedded]
    engines += [engine_for(spec, url, environment.engine_api_key, model) for url in environment.engine_urls]
    gateway = gateway_for(spec, model)
    return InProcessGateway(gateway, engines, lineage=str(environment.attempt), new_token=_nonce)


def attempt_rules(spec: TrainingRunSpec) -> AttemptRules:
    """What the config says about an attempt."""
    return AttemptRules(
        claim_deadline_seconds=step_deadline_seconds(spec),
        agent_timeout_seconds=float(spec.agent.timeout_seconds),
        grading_timeout_seconds=float(spec.reward.timeout_seconds),
        infra_retries=spec.rollout.infra_retries,
        engine_deadline_seconds=float(spec.inference.gone_deadline_seconds),
        strict=spec.reward.grading == "strict",
        reward_solved=spec.reward.solved,
        reward_unsolved=spec.reward.unsolved,
        reward=load_reward(spec.reward),
    )


async def _work_text(task: Task, sandbox: Sandbox) -> str:
    """Work that cannot be taken along is no work: what the agent did to its repository is its own doing."""
    return (await extract_work(task, sandbox)).patch


def _nonce() -> str:
    return secrets.token_urlsafe(16)
