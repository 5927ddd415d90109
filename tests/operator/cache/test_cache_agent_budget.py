"""The disk of one node: what may be pulled beside what is there, and what goes for it, only of the agent's own."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operator.cache.fake_node import FakeNode, manifest, passes

from sweyard_operator.cache_agent.agent import HOPELESS_FAILURES, HOPELESS_SECONDS
from sweyard_operator.cache_agent.cri import PullError
from sweyard_operator.cache_agent.disk import SETTLE_SECONDS
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import Assignment, ImageState, PullFailure


async def test_over_budget_only_own_unused_unwanted_images_go_also_after_a_restart() -> None:
    node = FakeNode(Assignment(images=("old:1", "busy:1"), max_parallel_pulls=2), held={normalize("foreign:1")})
    await passes(node.agent(), 3)
    node.in_use = {normalize("busy:1")}
    node.used = 100
    node.assignment = Assignment(images=("new:1",), max_parallel_pulls=2, disk_budget_bytes=50)
    agent = node.agent()
    await passes(agent, 3)
    node.now = 1.0 + SETTLE_SECONDS
    said = await passes(agent, 1)
    assert node.removed == ["old:1"]
    assert said.images["new:1"].reason is PullFailure.DISK_BUDGET


async def test_what_sandboxes_brought_is_reported_and_over_budget_the_longest_unused_goes() -> None:
    brought = [normalize(f"team/task:{number}") for number in range(3)]
    node = FakeNode(
        Assignment(images=(), max_parallel_pulls=1, families=("docker.io/team/task",), disk_budget_bytes=50),
        held={*brought, "docker.io/team/task@sha256:1", normalize("foreign:1")},
        used=10,
    )
    agent = node.agent()
    for node.now, used in ((1.0, brought[1]), (2.0, brought[0]), (3.0, brought[2])):
        node.in_use = {used}
        said = await passes(agent, 1)
    assert {image: one.state for image, one in said.images.items()} == dict.fromkeys(brought, ImageState.CACHED)
    assert (node.removed, node.pulls) == ([], [])
    node.used = 60
    for node.now in (4.0, 20.0, 40.0):
        await passes(agent, 3)
    assert node.removed == [brought[1], brought[0]], "never the one in use, never a foreign one"


async def test_a_pull_begins_only_where_its_bytes_fit_beside_all_that_is_under_way() -> None:
    node = FakeNode(Assignment(images=("a:1", "b:1", "c:1"), max_parallel_pulls=3, disk_budget_bytes=100))
    node.manifests = {
        "a:1": manifest("a", base=10, a=10),
        "b:1": manifest("b", b=20),
        "c:1": manifest("c", base=10, c=1),
    }
    node.slow = {"a:1", "c:1"}
    agent = node.agent()
    said = await passes(agent, 4)
    assert node.pulls == ["a:1", "c:1"], "60 for a, 3 for what c does not share with it; 60 more for b do not fit"
    assert said.images["b:1"].reason is PullFailure.DISK_BUDGET
    assert said.images["b:1"].num_bytes == 20
    assert said.images["b:1"].message.startswith(
        "it needs about 1 MiB, and images, those of other pods among them, take 0"
    )
    await agent.close()


async def test_an_image_of_unknown_size_is_taken_for_large_but_a_small_budget_still_gets_filled() -> None:
    images = tuple(f"i{number}:1" for number in range(6))
    node = FakeNode(Assignment(images=images, max_parallel_pulls=6, disk_budget_bytes=100), slow=set(images))
    agent = node.agent()
    await passes(agent, 4)
    assert node.pulls == list(images[:4])
    await agent.close()


async def test_for_what_is_needed_sooner_the_image_needed_last_goes_unless_it_is_in_use() -> None:
    images = ("a:1", "b:1", "c:1")
    node = FakeNode(Assignment(images=images, max_parallel_pulls=3, disk_budget_bytes=100))
    agent = node.agent()
    await passes(agent, 4)
    node.now, node.used, node.in_use = 100.0, 100, {normalize("c:1")}
    node.assignment = Assignment(images=("new:1", *images), max_parallel_pulls=3, disk_budget_bytes=100)
    node.manifests["new:1"] = manifest("n", n=6)
    await passes(agent, 4)
    assert node.removed == ["b:1"]
    node.now, node.used = 200.0, 75
    await passes(agent, 4)
    assert node.pulls[-1] == "new:1"
    node.now = 300.0
    await passes(agent, 4)
    assert node.pulls.count("b:1") == 2, "there is room again"
    node.now, node.used = 400.0, 100
    await passes(agent, 4)
    assert node.removed == ["b:1"], "below its budget a node evicts nothing"


async def test_as_many_go_for_what_is_needed_sooner_as_pulls_may_begin_beside_each_other() -> None:
    images = tuple(f"old{number}:1" for number in range(6))
    node = FakeNode(Assignment(images=images, max_parallel_pulls=6))
    agent = node.agent()
    await passes(agent, 4)
    new = tuple(f"new{number}:1" for number in range(3))
    node.manifests = {image: manifest(image, **{image: 6}) for image in new}
    node.now, node.used = 100.0, 60
    node.assignment = Assignment(images=(*new, *images), max_parallel_pulls=2, disk_budget_bytes=60)
    await passes(agent, 4)
    assert node.removed == ["old5:1", "old4:1"], "each frees 20 bytes and a new one takes 18: two for two"


@pytest.mark.parametrize("other", ["wanted:1", "foreign:1", "wanted@sha256:" + "0" * 64])
async def test_an_image_stays_whose_other_name_is_wanted_or_was_brought_by_somebody_else(other: str) -> None:
    node = FakeNode(Assignment(images=("old:1",), max_parallel_pulls=1), held={normalize(other)})
    node.ids = dict.fromkeys(map(normalize, ("old:1", other)), "same")
    agent = node.agent()
    await passes(agent, 3)
    wanted = () if other == "foreign:1" else (other,)
    node.now, node.used = 100.0, 60
    node.assignment = Assignment(images=wanted, max_parallel_pulls=1, disk_budget_bytes=50)
    await passes(agent, 3)
    assert node.removed == []
    node.ids.clear()
    await passes(agent, 1)
    assert node.removed == ["old:1"]


async def test_what_is_needed_between_two_goes_only_for_the_sooner_one() -> None:
    node = FakeNode(Assignment(images=("b:1",), max_parallel_pulls=2))
    agent = node.agent()
    await passes(agent, 4)
    node.manifests = {image: manifest(image, **{image: 6}) for image in ("a:1", "c:1")}
    node.now, node.used = 100.0, 30
    node.assignment = Assignment(images=("a:1", "b:1", "c:1"), max_parallel_pulls=2, disk_budget_bytes=30)
    await passes(agent, 4)
    assert node.removed == ["b:1"]
    node.now, node.used = 200.0, 30
    await passes(agent, 4)
    assert node.removed == ["b:1"], "nothing is needed later than c"


async def test_room_for_all_that_is_missing_is_made_at_once_and_layers_that_stay_free_nothing() -> None:
    old = tuple(f"t/old:{number}" for number in range(6))
    node = FakeNode(Assignment(images=old, max_parallel_pulls=6))
    node.manifests = {image: manifest(image, base=100, **{f"own{number}": 5}) for number, image in enumerate(old)}
    agent = node.agent()
    await passes(agent, 4)
    new = ("t/new:0", "t/new:1")
    node.manifests |= {image: manifest(image, **{f"new{number}": 5}) for number, image in enumerate(new)}
    node.sizes = {normalize(image): 105 for image in old}
    node.now, node.used = 100.0, 260
    node.assignment = Assignment(images=new, max_parallel_pulls=2, disk_budget_bytes=260)
    await passes(agent, 4)
    assert node.removed == list(old[:3]), "30 bytes for both, 10 freed by each"


async def test_evictions_wait_until_the_last_one_shows_in_the_figures() -> None:
    node = FakeNode(Assignment(images=("a:1", "b:1"), max_parallel_pulls=2))
    agent = node.agent()
    await passes(agent, 4)
    node.now, node.used = 100.0, 60
    node.assignment = Assignment(images=(), max_parallel_pulls=2, disk_budget_bytes=50)
    await passes(agent, 5)
    assert len(node.removed) == 1
    node.now = 116.0
    await passes(agent, 1)
    assert len(node.removed) == 2


async def live(
    node: FakeNode, sizes: Mapping[str, int], *, ratio: float, foreign_bytes: int, hours: float
) -> list[int]:
    """Images of `sizes` compressed bytes on a disk that shows `ratio` of them; how many were pulled in each hour."""
    node.manifests = {image: manifest(image, **{image: size}) for image, size in sizes.items()}
    node.sizes = {normalize(image): size for image, size in sizes.items()}
    agent, counts = node.agent(), []
    for now in range(0, int(hours * 3_600), int(SETTLE_SECONDS) + 1):
        node.now = float(now)
        held = [size for image, size in sizes.items() if normalize(image) in node.held]
        node.used = foreign_bytes + int(ratio * sum(held))
        await passes(agent, 1)
        counts.append(len(node.pulls))
    await agent.close()
    return counts


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=6),
    ratio=st.floats(2.0, 3.0),
    budget_bytes=st.integers(20, 300),
    foreign_bytes=st.integers(0, 60),
)
async def test_whatever_the_budget_there_is_an_end_to_pulling_and_evicting(
    sizes: list[int], ratio: float, budget_bytes: int, foreign_bytes: int
) -> None:
    images = {f"i{number}:1": size for number, size in enumerate(sizes)}
    node = FakeNode(Assignment(images=tuple(images), max_parallel_pulls=2, disk_budget_bytes=budget_bytes))
    counts = await live(node, images, ratio=ratio, foreign_bytes=foreign_bytes, hours=0.6)
    assert counts[-1] <= 3 * len(sizes)
    assert counts[-1] == counts[len(counts) // 2], "and nothing is pulled any more"


async def test_for_an_image_that_can_never_fit_nothing_goes() -> None:
    sizes = {"huge:1": 50, "a:1": 10, "b:1": 10}
    node = FakeNode(Assignment(images=tuple(sizes), max_parallel_pulls=2, disk_budget_bytes=100))
    await live(node, sizes, ratio=3.0, foreign_bytes=0, hours=0.2)
    assert (node.pulls, node.removed) == (["a:1", "b:1"], [])
    assert node.report is not None
    assert node.report.images["huge:1"].reason is PullFailure.DISK_BUDGET


async def test_what_goes_for_an_image_that_fails_again_and_again_is_pulled_again_and_stays() -> None:
    sizes = {"gone:1": 30, "a:1": 10, "b:1": 10}
    node = FakeNode(Assignment(images=tuple(sizes), max_parallel_pulls=2, disk_budget_bytes=100))
    node.errors["gone:1"] = PullError(PullFailure.NOT_FOUND, "gone:1: not found")
    await live(node, sizes, ratio=3.0, foreign_bytes=0, hours=1.0)
    assert node.report is not None
    assert [said.state for said in node.report.images.values()] == [ImageState.FAILED, *2 * [ImageState.CACHED]]
    assert max(node.pulls.count(image) for image in ("a:1", "b:1")) <= HOPELESS_FAILURES + 1


async def test_an_image_that_failed_again_and_again_is_tried_once_more_after_a_while() -> None:
    sizes = {"back:1": 30, "a:1": 10, "b:1": 10}
    node = FakeNode(Assignment(images=tuple(sizes), max_parallel_pulls=2, disk_budget_bytes=100))
    node.errors["back:1"] = PullError(PullFailure.NOT_FOUND, "back:1: not found")
    node.on_pull = lambda: node.errors.clear() if node.now > HOPELESS_SECONDS else None
    await live(node, sizes, ratio=3.0, foreign_bytes=0, hours=1.5)
    assert normalize("back:1") in node.held


@pytest.mark.parametrize("ratio", [2.2, 3.0])
async def test_the_one_image_that_is_needed_later_goes_for_one_of_its_size(ratio: float) -> None:
    sizes = {"new:1": 10, "old:1": 10}
    node = FakeNode(Assignment(images=("old:1",), max_parallel_pulls=1))
    await passes(node.agent(), 3)
    node.assignment = Assignment(images=tuple(sizes), max_parallel_pulls=1, disk_budget_bytes=32)
    await live(node, sizes, ratio=ratio, foreign_bytes=0, hours=0.1)
    assert (node.removed, node.pulls) == (["old:1"], ["old:1", "new:1"])
