"""What is planned for an ImageCache called `c`, by what there is."""

from datetime import UTC, datetime
from typing import Any

from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.build.cache_agent import AgentHost
from sweyard_operator.cache_agent.protocol import NodeReport
from sweyard_operator.observe.image_cache import ObservedCache
from sweyard_operator.plan.image_cache import plan_image_cache
from sweyard_operator.plan.plan import Plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST = AgentHost("agent:1", "/run/k3s/containerd/containerd.sock")
CACHE = {
    "apiVersion": "sweyard.dev/v1alpha1",
    "kind": "ImageCache",
    "metadata": {"name": "c", "namespace": "ns", "uid": "u", "generation": 3},
}


def plan(
    *images: str, nodes: tuple[str, ...] = ("n1", "n2"), reports: dict[str, NodeReport] | None = None, **spec: Any
) -> Plan:
    observed = ObservedCache(
        *(images, None, nodes, reports or {}, spec.pop("config_maps", ()), spec.pop("pods", ())),
        agents=spec.pop("agents", ()),
        absent_nodes=spec.pop("absent_nodes", ()),
    )
    parsed = ImageCacheSpec.model_validate(spec)
    return plan_image_cache(CACHE, parsed, observed, agent_host=HOST, now=NOW)


def conditions(made: Plan) -> dict[str, tuple[str, str]]:
    assert made.status is not None
    return {c["type"]: (c["status"], c["reason"]) for c in made.status["conditions"]}
