"""The agent of one node: pulls in order within its limit, retries with backoff, evicts only its own."""

import asyncio
from dataclasses import dataclass, field

import grpc
import pytest

from sweyard_operator.cache_agent.agent import CacheAgent
from sweyard_operator.cache_agent.cri import PullError, RegistryAuth, classify
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import Assignment, ImageState, NodeReport, PullFailure


@dataclass
class FakeNode:
    """Container runtime and mailbox of one node."""

    assignment: Assignment | None = None
    held: set[str] = field(default_factory=set)
    in_use: set[str] = field(default_factory=set)
    used: int = 0
    errors: dict[str, PullError] = field(default_factory=dict)
    pulls: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    report: NodeReport | None = None
    num_writes: int = 0
    now: float = 0.0

    async def held_images(self) -> dict[str, int]:
        return dict.fromkeys(self.held, 1_000)

    async def images_in_use(self) -> frozenset[str]:
        return frozenset(self.in_use)

    async def used_bytes(self) -> int:
        return self.used

    async def pull(self, image: str, auth: RegistryAuth | None, *, timeout_seconds: float) -> None:
        self.pulls.append(image)
        if image in self.errors:
            raise self.errors[image]
        self.held.add(normalize(image))

    async def remove(self, image: str) -> None:
        self.removed.append(image)
        self.held.discard(normalize(image))

    async def read_assignment(self) -> Assignment | None:
        return self.assignment

    async def read_report(self) -> NodeReport | None:
        return self.report

    async def write_report(self, report: NodeReport) -> None:
        self.report = report
        self.num_writes += 1

    def agent(self) -> CacheAgent:
        return CacheAgent(node="n1", runtime=self, mailbox=self, auths={}, clock=lambda: self.now)


async def passes(agent: CacheAgent, count: int) -> NodeReport:
    for _ in range(count):
        said = await agent.run_pass()
        await asyncio.sleep(0)
    assert said is not None
    return said


async def test_pulls_keep_the_order_of_need_and_the_limit() -> None:
    node = FakeNode(Assignment(images=("a:1", "b:1", "c:1"), max_parallel_pulls=1))
    agent = node.agent()
    await passes(agent, 1)
    assert node.pulls == ["a:1"]
    said = await passes(agent, 4)
    assert node.pulls == ["a:1", "b:1", "c:1"]
    assert {(report.state, report.num_bytes) for report in said.images.values()} == {(ImageState.CACHED, 1_000)}


async def test_a_settled_node_writes_nothing() -> None:
    node = FakeNode(Assignment(images=("a:1",), max_parallel_pulls=2))
    agent = node.agent()
    await passes(agent, 3)
    written = node.num_writes
    await passes(agent, 5)
    assert node.num_writes == written


async def test_a_failed_pull_is_typed_and_tried_again_only_after_its_backoff() -> None:
    node = FakeNode(Assignment(images=("a:1", "b:1"), max_parallel_pulls=2))
    node.errors["a:1"] = PullError(PullFailure.NOT_FOUND, "a:1: not found")
    agent = node.agent()
    said = await passes(agent, 4)
    assert (said.images["a:1"].state, said.images["a:1"].reason) == (ImageState.FAILED, PullFailure.NOT_FOUND)
    assert said.images["b:1"].state is ImageState.CACHED
    assert node.pulls.count("a:1") == 1
    node.now = 6.0
    await passes(agent, 2)
    assert node.pulls.count("a:1") == 2


async def test_what_the_kubelet_removed_is_pulled_again() -> None:
    node = FakeNode(Assignment(images=("a:1",), max_parallel_pulls=1))
    agent = node.agent()
    await passes(agent, 3)
    node.held.clear()
    said = await passes(agent, 3)
    assert node.pulls == ["a:1", "a:1"]
    assert said.images["a:1"].state is ImageState.CACHED


async def test_over_budget_only_own_unused_unwanted_images_go_also_after_a_restart() -> None:
    node = FakeNode(Assignment(images=("old:1", "busy:1"), max_parallel_pulls=2), held={normalize("foreign:1")})
    await passes(node.agent(), 3)
    node.in_use = {normalize("busy:1")}
    node.used = 100
    node.assignment = Assignment(images=("new:1",), max_parallel_pulls=2, disk_budget_bytes=50)
    said = await passes(node.agent(), 3)
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
    await passes(agent, 3)
    assert node.removed == [brought[1], brought[0]], "never the one in use, never a foreign one"


@pytest.mark.parametrize(
    ("code", "details", "reason"),
    [
        (grpc.StatusCode.NOT_FOUND, "x", PullFailure.NOT_FOUND),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "x", PullFailure.TIMEOUT),
        (grpc.StatusCode.UNKNOWN, "unexpected status: 429 Too Many Requests", PullFailure.RATE_LIMITED),
        (grpc.StatusCode.UNKNOWN, "pull access denied, authorization failed", PullFailure.UNAUTHORIZED),
        (grpc.StatusCode.UNKNOWN, "write: no space left on device", PullFailure.DISK_FULL),
        (grpc.StatusCode.UNKNOWN, "dial tcp: connection refused", PullFailure.REGISTRY_UNREACHABLE),
        (grpc.StatusCode.UNKNOWN, "failed commit on ref", PullFailure.PULL_FAILED),
    ],
    ids=["missing", "timeout", "rate-limit", "auth", "disk", "unreachable", "other"],
)
def test_the_runtimes_prose_becomes_a_type(code: grpc.StatusCode, details: str, reason: PullFailure) -> None:
    assert classify(code, details) is reason


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("busybox:1", "docker.io/library/busybox:1"),
        ("org/app:1", "docker.io/org/app:1"),
        ("host:5000/app:1", "host:5000/app:1"),
        ("localhost/app:1", "localhost/app:1"),
    ],
)
def test_references_are_compared_in_full(short: str, full: str) -> None:
    assert normalize(short) == full
