"""ClusterView: runs, pools and caches as the API server has them, asked for at most every other second."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from kubernetes import client

from sweyard_api.constants import CONFIG_KEY, GROUP, VERSION, config_map_name
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_api.kinds import IMAGE_CACHE, ROLLOUT_POOL, TRAINING_RUN, Kind
from sweyard_api.yaml_text import load_document
from sweyard_cli.cache.cluster import cluster_nodes, list_holdings
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.report.config_shown import shown_config
from sweyard_cli.report.page import facts_of
from sweyard_cli.ui.cache_cells import cache_view
from sweyard_cli.ui.not_there import NotThereError
from sweyard_cli.ui.pod_watch import PodWatch
from sweyard_cli.ui.pool_cells import pool_line, pool_view
from sweyard_cli.ui.recent import Recent
from sweyard_cli.view.cluster_source import snapshot_of_run

FRESH_SECONDS = 2.0
CACHES_FRESH_SECONDS = 5.0
IDLE_SECONDS = 30.0
REQUEST_TIMEOUT_SECONDS = 15
_MOST_REWARDS = 1_000

Answer = dict[str, Any]
Objects = Mapping[tuple[str, str], Mapping[str, Any]]
"""By namespace and name."""


class ClusterView:
    """For several threads. All methods raise UserError where the API server refuses or does not answer."""

    def __init__(
        self,
        connection: Connection,
        namespaces: Sequence[str] | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`namespaces` None: all of them, which only some accounts may list."""
        self._connection = connection
        self._namespaces = namespaces
        self._clock = clock
        self._custom = client.CustomObjectsApi(connection.api_client)
        self._runs = self._recent(TRAINING_RUN)
        self._pools = self._recent(ROLLOUT_POOL)
        self._cache_objects = self._recent(IMAGE_CACHE)
        self._caches = Recent(self._read_caches, seconds=CACHES_FRESH_SECONDS, clock=clock)
        self._watches: dict[tuple[str, str], PodWatch] = {}
        self._rewards: dict[str, dict[int, float]] = {}
        self._lock = threading.Lock()

    def runs(self) -> list[Answer]:
        """A line for each run."""
        return [self._line(run) for run in self._runs().values()]

    def run(self, where: str, name: str) -> Answer:
        """State of one run, and what it is of. Raises NotThereError."""
        run = _find(self._runs(), TRAINING_RUN, where, name)
        config = self._config(where, name)
        return {
            **self._line(run),
            "facts": facts_of(config),
            "config": shown_config(config, without_cluster=False),
        }

    def pools(self) -> list[Answer]:
        """A line for each pool."""
        return [pool_line(pool) for pool in self._pools().values()]

    def pool(self, where: str, name: str) -> Answer:
        """Each sandbox of a pool. Raises NotThereError."""
        pool = _find(self._pools(), ROLLOUT_POOL, where, name)
        with told_plainly(f"sandboxes of {where}/{name} cannot be listed"):
            pods = self._watch(pool).pods()
        return pool_view(pool, pods, datetime.now(UTC))

    def caches(self) -> Sequence[Answer]:
        """Each cache with what its nodes hold."""
        return self._caches()

    def stamps(self) -> Mapping[str, object]:
        """By topic what differs when there is news. Pools that nobody looks at are not followed."""
        runs, pools, caches = self._runs(), self._pools(), self._cache_objects()
        changes = {key: watch.num_changes for key, watch in self._watches.items()}
        return {
            **{f"run {'/'.join(key)}": _version(run) for key, run in runs.items()},
            **{f"pool {'/'.join(key)}": (_version(pool), changes.get(key)) for key, pool in pools.items()},
            "caches": [_version(cache) for cache in caches.values()],
        }

    def _line(self, run: Mapping[str, Any]) -> Answer:
        """The reward is known as long as this process has looked."""
        where, name = run["metadata"]["namespace"], run["metadata"]["name"]
        pool_name = (run["spec"].get("sandboxes") or {}).get("poolRef") or name
        pool = self._pools().get((where, pool_name))
        snapshot = snapshot_of_run(run, pool)
        seen = self._rewards.setdefault(run["metadata"]["uid"], {})
        if "rewardMean" in snapshot.metrics and len(seen) < _MOST_REWARDS:
            seen[snapshot.step] = snapshot.metrics["rewardMean"]
        status = run.get("status") or {}
        return {
            "where": where,
            **asdict(snapshot),
            "pool": pool_name if pool else None,
            "restarts": int(status.get("restarts", 0)),
            "weight_version": (status.get("trainer") or {}).get("weightVersion"),
            "spark": [seen[step] for step in sorted(seen)],
        }

    def _config(self, where: str, name: str) -> Mapping[str, Any]:
        """Resolved; empty before the operator has stored it."""
        core = client.CoreV1Api(self._connection.api_client)
        with told_plainly(f"the config of {where}/{name} cannot be read"):
            try:
                found = core.read_namespaced_config_map(config_map_name(name), where)
            except client.ApiException as error:
                if error.status == 404:
                    return {}
                raise
        config = load_document((found.data or {}).get(CONFIG_KEY, ""))
        return config if isinstance(config, dict) else {}

    def _watch(self, pool: Mapping[str, Any]) -> PodWatch:
        key = (pool["metadata"]["namespace"], pool["metadata"]["name"])
        with self._lock:
            known = self._watches.get(key)
            if known is None or known.uid != pool["metadata"]["uid"]:
                known = PodWatch(self._connection, pool, idle_seconds=IDLE_SECONDS, clock=self._clock)
                self._watches[key] = known
            return known

    def _read_caches(self) -> list[Answer]:
        answers = []
        for where in sorted({namespace for namespace, _ in self._cache_objects()}):
            there = Connection(self._connection.api_client, where)
            for told in list_holdings(there, None):
                cache = self._cache_objects().get((where, told.name))
                spec = ImageCacheSpec.model_validate(cache["spec"]) if cache else None
                nodes = cluster_nodes(there, spec) if spec else []
                answers.append(cache_view(where, told, {node.name: node.budget_bytes for node in nodes}))
        return answers

    def _recent(self, kind: Kind) -> Recent[Objects]:
        return Recent(lambda: self._list(kind), seconds=FRESH_SECONDS, clock=self._clock)

    def _list(self, kind: Kind) -> Objects:
        options = {"_request_timeout": REQUEST_TIMEOUT_SECONDS}
        items: list[dict[str, Any]] = []
        with told_plainly(f"{kind.plural} cannot be listed"):
            if self._namespaces is None:
                items = self._custom.list_cluster_custom_object(GROUP, VERSION, kind.plural, **options)["items"]
            for where in self._namespaces or ():
                found = self._custom.list_namespaced_custom_object(GROUP, VERSION, where, kind.plural, **options)
                items += found["items"]
        return {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in items}


def _find(objects: Objects, kind: Kind, where: str, name: str) -> Mapping[str, Any]:
    found = objects.get((where, name))
    if found is None:
        raise NotThereError(f"there is no {kind.name} {where}/{name}")
    return found


def _version(found: Mapping[str, Any]) -> str:
    return str(found["metadata"]["resourceVersion"])
