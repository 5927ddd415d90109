"""An ImageCache on an API server that tells the truth: what it keeps, and what it leaves alone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sweyard_api.constants import LABEL_CACHE
from sweyard_operator.build.cache_agent import agent_name
from sweyard_operator.cache_agent.protocol import REPORT_KEY, ImageReport, ImageState, NodeReport, report_name
from sweyard_operator.handlers.image_cache import ImageCacheController
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT
from sweyard_operator.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    EVENTS,
    IMAGE_CACHES,
    PODS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    Resource,
)
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.fake_nodes import FakeNodes
from sweyard_operator.testing.operator_process import OperatorProcess
from sweyard_operator.testing.virtual_time import run_in_virtual_time

NODE, AGENTS = "node-a", ("team", agent_name("cache"))
ADDRESS = (IMAGE_CACHES, "team", "cache")


def play(story: Callable[[FakeApiServer], Awaitable[None]]) -> None:
    """On one node whose agent said that it has all."""
    api = FakeApiServer()
    nodes = FakeNodes(api, names=(NODE,))
    process = OperatorProcess(api, lambda operator: [ImageCacheController(operator)])

    async def main() -> None:
        nodes.register()
        stepping = asyncio.create_task(nodes.run())
        await process.start()
        api.store.create(IMAGE_CACHES, manifest(IMAGE_CACHES, "cache", spec={"images": ["a:1"]}))
        said = NodeReport(node=NODE, images={"a:1": ImageReport(state=ImageState.CACHED)}).model_dump_json()
        labels = {LABEL_CACHE: "cache", LABEL_ROLE: ROLE_REPORT}
        report = manifest(CONFIG_MAPS, report_name("cache", NODE), data={REPORT_KEY: said}, labels=labels)
        api.store.create(CONFIG_MAPS, report)
        api.touch()
        try:
            await asyncio.sleep(10)
            await story(api)
        finally:
            stepping.cancel()
            await process.kill()

    run_in_virtual_time(main())


def manifest(resource: Resource, name: str, labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "labels": labels or {}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}


def test_a_settled_cache_is_left_alone() -> None:
    async def story(api: FakeApiServer) -> None:
        cache = api.store.get(ADDRESS)
        assert cache is not None
        assert cache["status"]["cached"] == 1
        before = len(api.requests)
        daemon_set = api.store.get((DAEMON_SETS, *AGENTS))
        assert daemon_set is not None
        api.store.put(DAEMON_SETS, {**daemon_set, "status": {"numberReady": 1}})
        api.touch()
        await asyncio.sleep(120)
        assert [method for method, _ in api.requests[before:] if method != "GET"] == []

    play(story)


def test_a_namespace_that_forbids_agents_is_told_in_its_own_words() -> None:
    async def story(api: FakeApiServer) -> None:
        daemon_set = api.store.get((DAEMON_SETS, *AGENTS))
        assert daemon_set is not None
        said = {"reason": "FailedCreate", "message": 'violates PodSecurity "restricted:latest"', "type": "Warning"}
        about = {"involvedObject": {"uid": daemon_set["metadata"]["uid"], "kind": "DaemonSet"}}
        api.store.create(EVENTS, manifest(EVENTS, "refused", **said, **about))
        api.store.remove((CONFIG_MAPS, "team", report_name("cache", NODE)))
        api.touch()
        await asyncio.sleep(120)
        cache = api.store.get(ADDRESS)
        assert cache is not None
        ready = next(entry for entry in cache["status"]["conditions"] if entry["type"] == "Ready")
        assert ready["message"].endswith(
            f"no report yet from {NODE}, whose agents are not made (`mode: pods` needs no rights on nodes): "
            'FailedCreate: violates PodSecurity "restricted:latest"'
        )

    play(story)


def test_agents_that_somebody_removed_come_back() -> None:
    async def story(api: FakeApiServer) -> None:
        for resource in (DAEMON_SETS, SERVICE_ACCOUNTS, ROLE_BINDINGS):
            api.store.remove((resource, *AGENTS))
        api.touch()
        await asyncio.sleep(10)
        for resource in (DAEMON_SETS, SERVICE_ACCOUNTS, ROLE_BINDINGS):
            assert api.store.get((resource, *AGENTS)) is not None

    play(story)


def test_mode_pods_takes_the_place_of_the_agents() -> None:
    async def story(api: FakeApiServer) -> None:
        cache = api.store.get(ADDRESS)
        assert cache is not None
        api.store.put(IMAGE_CACHES, {**cache, "spec": {"images": ["a:1"], "mode": "pods"}})
        api.touch()
        await asyncio.sleep(10)
        assert api.store.get((DAEMON_SETS, *AGENTS)) is None
        left = [len(api.store.as_of(api.store.version, kind, "team", LABEL_CACHE)) for kind in (CONFIG_MAPS, PODS)]
        assert left == [0, 1]

    play(story)
