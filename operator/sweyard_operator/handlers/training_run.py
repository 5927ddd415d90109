"""One pass over one TrainingRun: observe, plan, execute, remember what was refused."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sweyard_api.constants import LABEL_COMPONENT, LABEL_RUN
from sweyard_operator.build.run_context import ApiServerEndpoint, RunSettings, parse_development
from sweyard_operator.context import Operator
from sweyard_operator.observe.api_server import observe_api_server
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.observe.training_run import observe_training_run
from sweyard_operator.plan.plan import Outcome, Plan, Refusal
from sweyard_operator.plan.reasons import ConditionType
from sweyard_operator.plan.silence import SilenceClock
from sweyard_operator.plan.stall import hear_trainer
from sweyard_operator.plan.training_run import plan_training_run
from sweyard_operator.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    IMAGE_CACHES,
    JOBS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_BINDINGS,
    ROLLOUT_POOLS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    TRAINING_RUNS,
    Manifest,
    labels_of,
    namespace_of,
)
from sweyard_operator.run_metrics import RunMetrics
from sweyard_operator.work_queue import Key

logger = logging.getLogger(__name__)

_CHILDREN_BY_RUN = (
    *(CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, ROLE_BINDINGS, SERVICES),
    *(STATEFUL_SETS, DEPLOYMENTS, JOBS, POD_DISRUPTION_BUDGETS),
)
_REFUSED_SECONDS = 15.0
_TAKEN_SECONDS = 5.0
_API_SERVER_SECONDS = 60.0


@dataclass
class _Memory:
    """Of one run: what the API server last said no to, and when the trainer was heard. Lost at a restart, and learned
    anew."""

    uid: str
    taken: set[str] = field(default_factory=set)
    refusals: tuple[Refusal, ...] = ()
    reports: SilenceClock = field(default_factory=SilenceClock)


class TrainingRunController:
    """Takes each run from its spec to its end."""

    resource = TRAINING_RUNS

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._metrics = RunMetrics(operator.metrics.registry)
        self._settings = RunSettings(
            trainer_image=operator.settings.trainer_image,
            development=parse_development(operator.settings.development),
        )
        self._api_server: tuple[ApiServerEndpoint, ...] = ()
        self._api_server_read_at: float | None = None
        self._memories: dict[Key, _Memory] = {}
        self._users: dict[tuple[str, str, str], set[Key]] = {}
        caches = operator.caches
        for resource in _CHILDREN_BY_RUN:
            caches.watch(resource, LABEL_RUN, self._hear_child)
        for resource in (PODS, NETWORK_POLICIES):
            caches.watch(resource, LABEL_COMPONENT, self._hear_child)
        for resource in (ROLLOUT_POOLS, IMAGE_CACHES):
            caches.watch(resource, "", self._hear_shared)

    async def reconcile(self, key: Key) -> float | None:
        """One pass; what is gone is the garbage collector's to clean up after."""
        run = await self._operator.cluster.find(TRAINING_RUNS, key.namespace, key.name)
        if run is None:
            self._forget(key)
            return None
        memory = self._remember(key, run)
        self._metrics.meet(key.namespace, key.name, run.get("status") or {}, self._operator.clock())
        now = self._operator.cluster.contact.server_time()
        snapshot = await observe_training_run(
            self._operator.cluster,
            self._operator.caches,
            run,
            taken=memory.taken,
            refusals=memory.refusals,
            now=now,
        )
        outages, clock = self._operator.cluster.contact.outages, self._operator.clock()
        snapshot = replace(snapshot, silent_seconds=hear_trainer(memory.reports, snapshot, outages, clock))
        plan = plan_training_run(snapshot, await self._run_settings(), now)
        outcome = await self._operator.executor.execute(plan, run)
        _log_phase(key, run.get("status") or {}, plan.status or {})
        self._metrics.show(key.namespace, key.name, plan.status or run.get("status") or {}, self._operator.clock())
        return self._learn(memory, snapshot, plan, outcome)

    def _learn(self, memory: _Memory, snapshot: RunSnapshot, plan: Plan, outcome: Outcome) -> float | None:
        """Keep what was refused for the next pass, which says so in the status and tries again."""
        taken = set(outcome.existed) | (memory.taken & snapshot.taken_names())
        is_news = _gist(outcome.refused) != _gist(memory.refusals) or taken != memory.taken
        memory.refusals, memory.taken = outcome.refused, taken
        if is_news:
            return 0.0
        waits = [
            plan.requeue_after_seconds,
            _REFUSED_SECONDS if outcome.refused else None,
            _TAKEN_SECONDS if memory.taken else None,
        ]
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def _remember(self, key: Key, run: Manifest) -> _Memory:
        uid, spec = str(run["metadata"]["uid"]), run["spec"]
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = _Memory(uid)
        references = {
            ROLLOUT_POOLS.kind: (spec.get("sandboxes") or {}).get("poolRef"),
            IMAGE_CACHES.kind: (spec.get("images") or {}).get("cacheRef"),
        }
        for kind, name in references.items():
            if name is not None:
                self._users.setdefault((kind, key.namespace, name), set()).add(key)
        return memory

    def _forget(self, key: Key) -> None:
        self._memories.pop(key, None)
        self._metrics.forget(key.namespace, key.name)
        for users in self._users.values():
            users.discard(key)

    async def _run_settings(self) -> RunSettings:
        """With the API server's addresses, read anew every minute: they change when a control plane is rebuilt."""
        now = self._operator.clock()
        if self._api_server_read_at is None or now - self._api_server_read_at > _API_SERVER_SECONDS:
            self._api_server = await observe_api_server(self._operator.cluster)
            self._api_server_read_at = now
        return replace(self._settings, api_server=self._api_server)

    def _hear_child(self, before: Manifest | None, after: Manifest | None) -> None:
        item = after or before
        assert item is not None
        if (run := labels_of(item).get(LABEL_RUN)) is not None:
            self._operator.queue.add(Key(TRAINING_RUNS.kind, namespace_of(item) or "", run))

    def _hear_shared(self, before: Manifest | None, after: Manifest | None) -> None:
        """A pool or cache: its own run, and those that refer to it."""
        item = after or before
        assert item is not None
        self._hear_child(before, after)
        for key in self._users.get((item["kind"], namespace_of(item) or "", item["metadata"]["name"]), ()):
            self._operator.queue.add(key)


def _log_phase(key: Key, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """One line for each change of phase, with the run's name and what it waits for."""
    if after and before.get("phase") != after["phase"]:
        told = {entry["type"]: entry["message"] for entry in after["conditions"]}
        message = told.get(ConditionType.PROGRESSING, "").removeprefix(f"{after['phase']}: ")
        logger.info("%s: %s", after["phase"], message, extra={"object": str(key)})


def _gist(refusals: tuple[Refusal, ...]) -> set[tuple[str, str]]:
    """Without the API server's words, which count what is in use and so differ each time."""
    return {(refusal.name, refusal.reason) for refusal in refusals}
