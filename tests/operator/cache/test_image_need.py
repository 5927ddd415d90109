"""Nodes pull what holders ask for first, evict what was asked for last, and are told so only where it changes that."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_api.constants import API_VERSION, DEMAND_KEY, LABEL_CACHE, LABEL_POOL
from sweyard_operator.cache_agent.protocol import (
    ASSIGNMENT_KEY,
    REPORT_KEY,
    Assignment,
    ImageReport,
    ImageState,
    NodeReport,
    PullFailure,
    assignment_name,
    report_name,
)
from sweyard_operator.handlers.image_cache import ImageCacheController
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT
from sweyard_operator.plan.image_need import Need, follow, order_assignments
from sweyard_operator.resources import CONFIG_MAPS, IMAGE_CACHES, ROLLOUT_POOLS
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.fake_nodes import FakeNodes
from sweyard_operator.testing.operator_process import OperatorProcess
from sweyard_operator.testing.virtual_time import run_in_virtual_time

IMAGES = tuple("abcdef")
CACHED, WAITING = (ImageReport(state=state) for state in (ImageState.CACHED, ImageState.WAITING))
NO_ROOM = ImageReport(state=ImageState.FAILED, reason=PullFailure.DISK_BUDGET)
MISSING = ImageReport(state=ImageState.FAILED, reason=PullFailure.NOT_FOUND)


def order(told: Sequence[str], need: Need, said: Mapping[str, ImageReport]) -> str:
    """Of one node that has all images of which nothing is `said`."""
    report = NodeReport(node="n", images={image: said.get(image, CACHED) for image in IMAGES})
    assignment = Assignment(images=tuple(told), max_parallel_pulls=1)
    return "".join(order_assignments({"n": IMAGES}, need, {"n": assignment}, {"n": report})["n"])


@pytest.mark.parametrize(
    ("told", "need", "said", "best"),
    [
        ("", Need(("e", "c")), {}, "ecabdf"),
        ("", Need(("e",), ("c", "a")), {}, "ebdfca"),
        ("abcdef", Need(("e",)), {"e": WAITING}, "eabcdf"),
        ("abcdef", Need(("e",)), {"a": WAITING}, "abcdef"),
        ("abcdef", Need(("e",)), {"e": MISSING}, "abcdef"),
        ("eabcdf", Need((), ("e",)), {"a": WAITING}, "eabcdf"),
        ("eabcdf", Need(("a",), ("e",)), {"a": WAITING}, "eabcdf"),
        ("eabcdf", Need(("a",), ("e",)), {"a": NO_ROOM}, "abcdfe"),
        ("abcdef", Need(("a", "f")), {"a": WAITING}, "afbcde"),
        ("fedcba", Need(), {"a": WAITING, "b": WAITING}, "abcdef"),
        ("fedcba", Need(), {"a": WAITING}, "fedcba"),
    ],
    ids=[
        "what-is-needed-first-comes-first",
        "what-was-needed-last-comes-last",
        "lacks-what-is-needed",
        "lacks-only-what-is-not-needed",
        "lacks-what-cannot-be-pulled",
        "nothing-is-needed-between-steps",
        "what-was-needed-is-in-nobodys-way",
        "unless-there-is-no-room",
        "what-it-has-and-is-needed-must-not-be-evicted",
        "without-demand-as-listed",
        "without-demand-and-nothing-in-the-way",
    ],
)
def test_a_node_is_told_a_new_order_where_that_changes_what_it_does(
    told: str, need: Need, said: dict[str, ImageReport], best: str
) -> None:
    assert order(told, need, said) == best


def test_what_is_asked_for_no_longer_becomes_past_the_latest_last() -> None:
    need = follow(Need(), "abcx", IMAGES)
    assert need == Need(("a", "b", "c"))
    need = follow(follow(need, "bc", IMAGES), "d", IMAGES)
    assert need == Need(("d",), ("a", "b", "c"))
    assert follow(need, "ab", IMAGES) == Need(("a", "b"), ("c", "d"))


SAID = st.sampled_from([CACHED, WAITING, NO_ROOM, MISSING, ImageReport(state=ImageState.PULLING)])


@given(
    st.permutations(IMAGES),
    st.lists(st.sampled_from(IMAGES), unique=True),
    st.lists(st.sampled_from(IMAGES), unique=True),
    st.dictionaries(st.sampled_from(IMAGES), SAID),
)
def test_needed_images_are_pulled_first_and_the_same_need_writes_nothing(
    told: list[str], asked: list[str], asked_before: list[str], said: dict[str, ImageReport]
) -> None:
    need = follow(follow(Need(), asked_before, IMAGES), asked, IMAGES)
    found = order(told, need, said)
    assert sorted(found) == sorted(IMAGES)
    assert order(found, need, said) == found
    to_pull = [image for image in found if said.get(image) in (WAITING, NO_ROOM)]
    lacking = [image for image in asked if image in to_pull]
    assert to_pull[: len(lacking)] == lacking
    if not lacking and asked:
        assert found == "".join(told)


def config_map(name: str, key: str, text: str, **labels: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": "team", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}}


def test_the_demand_of_a_pools_holders_orders_what_its_caches_nodes_lack() -> None:
    images, last = ["a:1", "b:1", "ghcr.io/c:1"], "m.test/c:1"
    api = FakeApiServer()

    def told(node: str) -> tuple[str, ...]:
        found = api.store.get((CONFIG_MAPS, "team", assignment_name("cache", node)))
        assert found is not None
        return Assignment.model_validate_json(found["data"][ASSIGNMENT_KEY]).images

    def edition(node: str) -> str:
        found = api.store.get((CONFIG_MAPS, "team", assignment_name("cache", node)))
        assert found is not None
        return str(found["metadata"]["resourceVersion"])

    def ask(*wanted: str) -> None:
        body = config_map("holder", DEMAND_KEY, json.dumps({"images": wanted}), **{LABEL_POOL: "pool"})
        if (known := api.store.get((CONFIG_MAPS, "team", "holder"))) is None:
            api.store.create(CONFIG_MAPS, body)
        else:
            api.store.put(CONFIG_MAPS, {**known, "data": body["data"]})
        api.touch()

    async def story() -> None:
        for resource, name, spec in (
            (IMAGE_CACHES, "cache", {"images": images, "mirrors": [{"registry": "ghcr.io", "mirror": "m.test"}]}),
            (ROLLOUT_POOLS, "pool", {"replicas": 4, "imageCacheRef": "cache"}),
        ):
            metadata = {"name": name, "namespace": "team"}
            body = {"apiVersion": API_VERSION, "kind": resource.kind, "metadata": metadata, "spec": spec}
            api.store.create(resource, body)
        for node, state in (("node-a", CACHED), ("node-b", WAITING)):
            report = NodeReport(node=node, images=dict.fromkeys(["a:1", "b:1", last], state)).model_dump_json()
            labels = {LABEL_CACHE: "cache", LABEL_ROLE: ROLE_REPORT}
            api.store.create(CONFIG_MAPS, config_map(report_name("cache", node), REPORT_KEY, report, **labels))
        api.touch()
        await asyncio.sleep(10)
        assert told("node-a") == told("node-b") == ("a:1", "b:1", last)
        before = edition("node-a")
        ask("ghcr.io/c:1", "b:1", "ghcr.io/c:1", "elsewhere:1")
        await asyncio.sleep(10)
        assert told("node-b") == (last, "b:1", "a:1")
        assert edition("node-a") == before, "it has them all"
        before = edition("node-b")
        ask("ghcr.io/c:1", "b:1")
        await asyncio.sleep(60)
        assert edition("node-b") == before, "the same need"

    _play(api, story)


def _play(api: FakeApiServer, story: Callable[[], Awaitable[None]]) -> None:
    nodes = FakeNodes(api)
    process = OperatorProcess(api, lambda operator: [ImageCacheController(operator)])

    async def main() -> None:
        nodes.register()
        stepping = asyncio.create_task(nodes.run())
        await process.start()
        try:
            await story()
        finally:
            stepping.cancel()
            await process.kill()

    run_in_virtual_time(main())
