"""However nodes come to their parts of a registry's pulls, together they never exceed its limit, and all get done."""

import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from sweyard_operator.cache_agent.protocol import Assignment, ImageReport, ImageState, NodeReport
from sweyard_operator.plan.registry_shares import share_pulls

FAILED = ImageReport(state=ImageState.FAILED)
CACHED = ImageReport(state=ImageState.CACHED)


@dataclass
class Node:
    """An agent as the protocol has it: reads, reports, then pulls."""

    told: Assignment
    running: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    report: NodeReport | None = None

    def look(self, name: str) -> None:
        assert self.told.registry_pulls is not None
        limit = self.told.registry_pulls.get("r.test", 0)
        missing = [image for image in self.told.images if image not in (*self.done, *self.running)]
        self.running += missing[: max(0, limit - len(self.running))]
        kept = {"r.test": max(limit, len(self.running))}
        said = {
            image: CACHED if image in self.done else ImageReport(state=ImageState.WAITING) for image in self.told.images
        }
        self.report = NodeReport(node=name, images=said, registry_pulls=kept)


@settings(max_examples=60, deadline=None)
@given(num_nodes=st.integers(2, 12), limit=st.integers(1, 6), per_node=st.integers(1, 4), seed=st.integers(0, 1_000))
def test_the_limit_holds_at_every_moment_and_all_images_arrive_with_few_writes(
    num_nodes: int, limit: int, per_node: int, seed: int
) -> None:
    rng = random.Random(seed)
    placement = {f"n{i}": [f"r.test/a{i}:{j}" for j in range(rng.randrange(5))] for i in range(num_nodes)}
    if num_nodes * per_node <= limit:
        return
    start = Assignment(images=(), max_parallel_pulls=per_node, registry_pulls={})
    nodes = {name: Node(start) for name in placement}
    writes = Counter[str]()
    for _ in range(2_000):
        reports = {name: node.report for name, node in nodes.items() if node.report is not None}
        told = {name: node.told for name, node in nodes.items()}
        shares = share_pulls(placement, reports, told, limit=limit, per_node=per_node)
        assert shares is not None
        for name, node in nodes.items():
            before = node.told
            node.told = start.model_copy(update={"images": tuple(placement[name]), "registry_pulls": shares[name]})
            writes[name] += node.told != before
        for name in rng.sample(list(nodes), rng.randrange(1, num_nodes + 1)):
            node = nodes[name]
            if node.running and rng.random() < 0.5:
                node.done.append(node.running.pop(0))
            node.look(name)
        assert sum(len(node.running) for node in nodes.values()) <= limit
        if all(set(node.done) == set(placement[name]) for name, node in nodes.items()):
            # Its images, its part, what that grew by, and that it gives it back.
            assert max(writes.values()) <= per_node + 2
            return
    raise AssertionError("not all images arrived")


def told(**parts: int) -> Assignment:
    return Assignment(images=("r.test/a:1",), max_parallel_pulls=3, registry_pulls={"r.test": parts["part"]})


def test_few_nodes_are_told_no_limit() -> None:
    assert share_pulls({"n1": ["r.test/a:1"]}, {}, {}, limit=3, per_node=3) is None


def test_at_the_border_a_node_that_comes_and_goes_has_nobody_told_anew() -> None:
    here = {"n1": ["r.test/a:1"]}
    reports = {"n1": NodeReport(node="n1", images={"r.test/a:1": CACHED}, registry_pulls={})}
    settled = {"n1": told(part=0).model_copy(update={"registry_pulls": {}})}
    for placement in ({**here, "n2": []}, here, {**here, "n2": []}):
        parts = share_pulls(placement, reports, settled, limit=1, per_node=1)
        assert parts is not None
        assert parts["n1"] == {}


def test_a_node_whose_images_only_fail_gives_its_part_to_others() -> None:
    placement = {"n1": ["r.test/a:1"], "n2": ["r.test/b:1"]}
    reports = {"n1": NodeReport(node="n1", images={"r.test/a:1": FAILED}, registry_pulls={"r.test": 1})}
    parts = share_pulls(placement, reports, {"n1": told(part=1)}, limit=1, per_node=1)
    assert parts == {"n1": {}, "n2": {}}, "not before it said that it gave it back"
    given_back = {"n1": reports["n1"].model_copy(update={"registry_pulls": {}})}
    parts = share_pulls(placement, given_back, {"n1": told(part=0)}, limit=1, per_node=1)
    assert parts == {"n1": {}, "n2": {"r.test": 1}}


def test_what_is_needed_first_is_pulled_first() -> None:
    placement = {"n1": ["other.test/x:1", "r.test/a:1"], "n2": ["r.test/b:1"]}
    parts = share_pulls(placement, {}, {}, limit=1, per_node=1)
    assert parts == {"n1": {"other.test": 1}, "n2": {"r.test": 1}}


def test_nodes_that_had_no_limit_count_with_all_they_might_pull() -> None:
    before = Assignment(images=("r.test/a:1",), max_parallel_pulls=3)
    placement = {"n1": ["r.test/a:1"], "n2": ["r.test/b:1"], "n3": ["r.test/c:1"]}
    parts = share_pulls(placement, {}, {"n1": before}, limit=3, per_node=3)
    assert parts == {"n1": {"r.test": 1}, "n2": {}, "n3": {}}
