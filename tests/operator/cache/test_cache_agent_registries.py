"""Registries that are slow, silent or tired of us, and the part of a limit that one node has."""

from tests.operator.cache.fake_node import FakeNode, manifest, passes

from sweyard_operator.cache_agent.cri import PullError
from sweyard_operator.cache_agent.protocol import Assignment, ImageState, PullFailure
from sweyard_operator.cache_agent.registry import RegistryError
from sweyard_operator.cache_agent.survey import AT_ONCE


async def test_a_registry_that_asks_for_a_pause_is_neither_asked_nor_pulled_from_before_its_end() -> None:
    node = FakeNode(Assignment(images=("r.test/a:1", "other.test/b:1", "r.test/c:1"), max_parallel_pulls=3))
    for image in ("r.test/a:1", "r.test/c:1"):
        node.manifests[image] = RegistryError(PullFailure.RATE_LIMITED, "429", pause_seconds=30.0)
    agent = node.agent()
    for node.now in (0.0, 10.0, 29.0):
        said = await passes(agent, 3)
    assert (node.asked.count("r.test/a:1"), node.pulls) == (1, ["other.test/b:1"])
    waiting = said.images["r.test/a:1"]
    assert (waiting.state, waiting.reason) == (ImageState.WAITING, PullFailure.RATE_LIMITED)
    assert waiting.message == "its registry is left alone for as long as it asks: 429"
    node.manifests = {image: manifest("1", x=10) for image in node.manifests}
    node.now = 31.0
    said = await passes(agent, 3)
    assert PullFailure.RATE_LIMITED not in {one.reason for one in said.images.values()}
    assert sorted(node.pulls[1:]) == ["r.test/a:1", "r.test/c:1"]


async def test_a_registry_that_never_answers_holds_up_no_other() -> None:
    silent = tuple(f"silent.test/a:{number}" for number in range(20))
    node = FakeNode(Assignment(images=(*silent, "r.test/b:1", "r.test/c:1"), max_parallel_pulls=3), slow=set(silent))
    node.manifests = dict.fromkeys(silent, RegistryError(PullFailure.TIMEOUT, "no answer"))
    agent = node.agent()
    said = await passes(agent, 6)
    assert node.pulls == [silent[0], "r.test/b:1", "r.test/c:1"]
    assert len([image for image in node.asked if image in silent]) == AT_ONCE
    waiting = said.images[silent[1]]
    assert (waiting.state, waiting.reason) == (ImageState.WAITING, PullFailure.TIMEOUT)
    assert waiting.message == "its registry does not answer, so one pull at a time is tried: no answer"
    node.now, node.manifests = 61.0, dict.fromkeys(silent, manifest("1", x=10))
    assert (await passes(agent, 3)).images[silent[1]].reason is None, "it answers again"
    await agent.close()


async def test_a_registry_that_is_slow_does_not_take_all_pulls_of_a_node() -> None:
    slow = tuple(f"slow.test/a:{number}" for number in range(4))
    node = FakeNode(Assignment(images=(*slow, "r.test/b:1", "r.test/c:1"), max_parallel_pulls=3), slow=set(slow))
    agent = node.agent()
    await passes(agent, 6)
    assert node.pulls == [*slow[:2], "r.test/b:1", "r.test/c:1", slow[2]], "alone it may have all"
    await agent.close()


async def test_a_limit_that_only_the_runtime_met_holds_for_all_images_of_that_registry() -> None:
    node = FakeNode(Assignment(images=("r.test/a:1", "r.test/b:1", "other.test/c:1"), max_parallel_pulls=1))
    node.errors["r.test/a:1"] = PullError(PullFailure.RATE_LIMITED, "429 Too Many Requests")
    await passes(node.agent(), 8)
    assert node.pulls == ["r.test/a:1", "other.test/c:1"]


async def test_pulls_of_one_registry_keep_to_this_nodes_part_of_the_clusters_limit() -> None:
    images = ("r.test/a:1", "r.test/b:1", "other.test/c:1", "third.test/d:1")
    limits = {"r.test": 1, "third.test": 1}
    node = FakeNode(Assignment(images=images, max_parallel_pulls=4, registry_pulls=limits), slow=set(images))
    agent = node.agent()
    said = await passes(agent, 4)
    assert sorted(node.pulls) == ["r.test/a:1", "third.test/d:1"]
    assert said.registry_pulls == limits
    node.assignment = Assignment(images=images, max_parallel_pulls=4, registry_pulls={})
    said = await passes(agent, 2)
    assert said.registry_pulls == {"r.test": 1, "third.test": 1}, "given back when the running pulls have ended"
    await agent.close()
