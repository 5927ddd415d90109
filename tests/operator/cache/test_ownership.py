"""Whose images are whose on a node with several caches, or with those that a cache left which is gone."""

import pytest
from tests.operator.cache.fake_node import FakeNode, passes

from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.ownership import GONE_SECONDS, Ownership
from sweyard_operator.cache_agent.protocol import Assignment, ImageState

OLD = normalize("old:1")


def full(images: tuple[str, ...] = ("new:1",)) -> Assignment:
    """No room beside what is there."""
    return Assignment(images=images, max_parallel_pulls=1, disk_budget_bytes=50)


async def pulled_for(keeper: str) -> FakeNode:
    """A node whose disk is full of an image that an agent pulled for this cache."""
    node = FakeNode(Assignment(images=("old:1",), max_parallel_pulls=1))
    await passes(node.agent(keeper), 3)
    node.report, node.used, node.assignment = None, 60, full()
    assert node.marked == {OLD: keeper}
    return node


async def test_what_an_agent_pulled_stays_its_own_without_a_report() -> None:
    node = await pulled_for("team/c")
    await passes(node.agent(), 2)
    assert node.removed == [OLD]


@pytest.mark.parametrize("is_there", [False, True], ids=["gone", "still-there"])
async def test_what_a_cache_left_that_is_gone_makes_room_for_the_next_one(is_there: bool) -> None:
    node = await pulled_for("team/before")
    node.neighbours = {"team/before"} if is_there else set()
    agent = node.agent()
    for node.now in (0.0, GONE_SECONDS - 1.0):
        await passes(agent, 2)
    assert node.removed == [], "its agent may only be restarting"
    node.now = GONE_SECONDS
    await passes(agent, 2)
    assert node.removed == ([] if is_there else [OLD])


async def test_what_a_cache_left_and_the_next_one_wants_is_not_pulled_again() -> None:
    node = await pulled_for("team/before")
    node.assignment = full(("old:1",))
    agent = node.agent()
    for node.now in (0.0, GONE_SECONDS):
        said = await passes(agent, 2)
    assert node.pulls == ["old:1"]
    assert node.removed == []
    assert node.marked == {OLD: "team/c"}
    assert (said.images["old:1"].state, said.images["old:1"].own) == (ImageState.CACHED, True)


def test_a_cache_whose_agent_comes_back_is_waited_for_anew() -> None:
    looks: list[tuple[float, set[str], tuple[str, ...]]] = [
        (0.0, set(), ()),
        (GONE_SECONDS - 1.0, {"team/other"}, ()),
        (GONE_SECONDS, set(), ()),
        (2 * GONE_SECONDS, set(), ("a",)),
    ]
    clock = iter([at for at, _, _ in looks])
    ownership = Ownership("team/c", lambda: next(clock))
    for _, living, heirless in looks:
        assert ownership.find_heirless({"a": "team/other", "b": "team/c"}, living) == heirless
