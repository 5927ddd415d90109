"""The agent of one node: pulls in order within its limit, retries with backoff, evicts only its own."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc
import pytest

from sweyard_operator.cache_agent.agent import REWRITE_SECONDS, CacheAgent
from sweyard_operator.cache_agent.cri import HeldImage, PullError, RegistryAuth, classify, digest_of
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import Assignment, ImageState, NodeReport, PullFailure
from sweyard_operator.cache_agent.registry import Manifest, RegistryError
from sweyard_operator.cache_agent.survey import AT_ONCE, RECHECK_SECONDS, Survey


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
    sizes: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, Manifest | RegistryError] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    slow: set[str] = field(default_factory=set)
    on_pull: Callable[[], None] = lambda: None

    async def held_images(self) -> dict[str, HeldImage]:
        return {
            name: HeldImage(self.sizes.get(name, 10), self.digests.get(name, f"sha256:{name}")) for name in self.held
        }

    async def resolve(self, image: str) -> Manifest:
        self.asked.append(image)
        said = self.manifests.get(image, RegistryError(PullFailure.REGISTRY_UNREACHABLE, "no route"))
        if isinstance(said, RegistryError):
            raise said
        return said

    async def images_in_use(self) -> frozenset[str]:
        return frozenset(self.in_use)

    async def used_bytes(self) -> int:
        return self.used

    async def pull(self, image: str, auth: RegistryAuth | None, *, timeout_seconds: float) -> None:
        self.pulls.append(image)
        self.on_pull()
        if image in self.slow:
            await asyncio.Event().wait()
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
        return CacheAgent(
            node="n1",
            runtime=self,
            mailbox=self,
            find_auth={}.get,
            survey=Survey(self, lambda: self.now),
            clock=lambda: self.now,
        )


async def passes(agent: CacheAgent, count: int) -> NodeReport:
    for _ in range(count):
        said = await agent.run_pass()
        for _ in range(3):
            await asyncio.sleep(0)
    assert said is not None
    return said


async def test_pulls_keep_the_order_of_need_and_the_limit() -> None:
    node = FakeNode(Assignment(images=("a:1", "b:1", "c:1"), max_parallel_pulls=1))
    agent = node.agent()
    await passes(agent, 2)
    assert node.pulls == ["a:1"]
    said = await passes(agent, 4)
    assert node.pulls == ["a:1", "b:1", "c:1"]
    assert {(report.state, report.num_bytes) for report in said.images.values()} == {(ImageState.CACHED, 10)}


async def test_a_settled_node_writes_nothing() -> None:
    node = FakeNode(Assignment(images=("a:1",), max_parallel_pulls=2))
    agent = node.agent()
    await passes(agent, 3)
    written = node.num_writes
    node.now = 100.0
    await passes(agent, 5)
    assert node.num_writes == written


async def test_a_report_that_went_with_the_assignment_or_was_deleted_is_written_again() -> None:
    node = FakeNode(Assignment(images=("a:1",), max_parallel_pulls=2))
    agent = node.agent()
    await passes(agent, 4)
    assignment, node.assignment, node.report = node.assignment, None, None
    assert await agent.run_pass() is None
    node.assignment = assignment
    await passes(agent, 1)
    assert node.report is not None
    node.report = None
    node.now = REWRITE_SECONDS + 1.0
    await passes(agent, 1)
    assert node.report is not None


async def test_a_failed_pull_is_typed_and_tried_again_only_after_its_backoff() -> None:
    node = FakeNode(Assignment(images=("a:1", "b:1"), max_parallel_pulls=2))
    node.errors["a:1"] = PullError(PullFailure.NOT_FOUND, "a:1: not found")
    agent = node.agent()
    said = await passes(agent, 5)
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
    for node.now in (4.0, 20.0, 40.0):
        await passes(agent, 3)
    assert node.removed == [brought[1], brought[0]], "never the one in use, never a foreign one"


def manifest(digest: str, **layers: int) -> Manifest:
    return Manifest(f"sha256:{digest}", layers)


async def test_a_registry_that_asks_for_a_pause_is_neither_asked_nor_pulled_from_before_its_end() -> None:
    node = FakeNode(Assignment(images=("r.test/a:1", "other.test/b:1", "r.test/c:1"), max_parallel_pulls=3))
    for image in ("r.test/a:1", "r.test/c:1"):
        node.manifests[image] = RegistryError(PullFailure.RATE_LIMITED, "429", pause_seconds=30.0)
    agent = node.agent()
    for node.now in (0.0, 10.0, 29.0):
        said = await passes(agent, 3)
    assert (node.asked.count("r.test/a:1"), node.pulls) == (1, ["other.test/b:1"])
    assert said.images["r.test/a:1"].state is ImageState.WAITING
    node.manifests = {image: manifest("1", x=10) for image in node.manifests}
    node.now = 31.0
    await passes(agent, 3)
    assert sorted(node.pulls[1:]) == ["r.test/a:1", "r.test/c:1"]


async def test_a_registry_that_never_answers_holds_up_no_other() -> None:
    silent = tuple(f"silent.test/a:{number}" for number in range(20))
    node = FakeNode(Assignment(images=(*silent, "r.test/b:1", "r.test/c:1"), max_parallel_pulls=3), slow=set(silent))
    node.manifests = dict.fromkeys(silent, RegistryError(PullFailure.TIMEOUT, "no answer"))
    agent = node.agent()
    await passes(agent, 6)
    assert node.pulls == [silent[0], "r.test/b:1", "r.test/c:1"]
    assert len([image for image in node.asked if image in silent]) == AT_ONCE
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


async def test_an_agent_that_is_killed_in_mid_pull_still_owns_what_its_pull_brings() -> None:
    node = FakeNode(Assignment(images=("a:1",), max_parallel_pulls=1), held={normalize("foreign:1")}, slow={"a:1"})
    agent = node.agent()
    await passes(agent, 3)
    await agent.close()
    node.held.add(normalize("a:1"))
    node.assignment = Assignment(images=(), max_parallel_pulls=1, disk_budget_bytes=5)
    node.used = 10
    await passes(node.agent(), 2)
    assert node.removed == ["a:1"]


async def test_what_a_report_tells_of_has_not_begun_before_it_is_written() -> None:
    node = FakeNode(Assignment(images=("a:1",), max_parallel_pulls=1))
    told: list[ImageState | None] = []
    node.on_pull = lambda: told.append(node.report.images["a:1"].state if node.report else None)
    await passes(node.agent(), 3)
    assert told == [ImageState.PULLING]


async def test_a_tag_that_moved_is_told_and_nothing_is_done() -> None:
    node = FakeNode(Assignment(images=("a:1",), max_parallel_pulls=1))
    node.manifests["a:1"] = manifest("old", x=1)
    node.digests[normalize("a:1")] = "sha256:old"
    agent = node.agent()
    said = await passes(agent, 4)
    assert (said.images["a:1"].reason, said.images["a:1"].digest) == (None, "old")
    node.manifests["a:1"] = manifest("new", x=1)
    node.now = RECHECK_SECONDS + 1.0
    said = await passes(agent, 3)
    assert (said.images["a:1"].state, said.images["a:1"].reason) == (ImageState.CACHED, PullFailure.TAG_MOVED)
    assert node.pulls == ["a:1"]


async def test_half_of_the_pulls_fail_and_all_arrive() -> None:
    images = tuple(f"i{number}:1" for number in range(8))
    node = FakeNode(Assignment(images=images, max_parallel_pulls=3))
    for image in images[::2]:
        node.errors[image] = PullError(PullFailure.CORRUPT, "unexpected commit digest")
    agent = node.agent()
    said = await passes(agent, 8)
    assert {said.images[image].reason for image in images[::2]} == {PullFailure.CORRUPT}
    assert {said.images[image].state for image in images[1::2]} == {ImageState.CACHED}
    node.errors.clear()
    node.now = 60.0
    said = await passes(agent, 8)
    assert {report.state for report in said.images.values()} == {ImageState.CACHED}


async def test_layers_that_a_family_shares_are_told() -> None:
    node = FakeNode(Assignment(images=("t/x:1", "t/x:2", "u/y:1"), max_parallel_pulls=3))
    node.manifests = {
        "t/x:1": manifest("1", base=100, one=5),
        "t/x:2": manifest("2", base=100, two=7),
        "u/y:1": manifest("3", own=9),
    }
    said = await passes(node.agent(), 3)
    assert said.families == {"docker.io/t/x": {"base": 100}, "docker.io/u/y": {"own": 9}}


def test_an_image_with_several_names_is_held_under_the_digest_of_each_repository() -> None:
    digests = ["r.test/a@sha256:1", "r.test/b@sha256:2"]
    assert [digest_of(name, digests) for name in ("r.test/b:9", "r.test/a@sha256:1", "r.test/c:1")] == [
        "sha256:2",
        "sha256:1",
        "",
    ]


@pytest.mark.parametrize(
    ("code", "details", "reason"),
    [
        (grpc.StatusCode.NOT_FOUND, "x", PullFailure.NOT_FOUND),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "x", PullFailure.TIMEOUT),
        (grpc.StatusCode.UNKNOWN, "unexpected status: 429 Too Many Requests", PullFailure.RATE_LIMITED),
        (grpc.StatusCode.UNKNOWN, "pull access denied, authorization failed", PullFailure.UNAUTHORIZED),
        (grpc.StatusCode.UNKNOWN, "write: no space left on device", PullFailure.DISK_FULL),
        (grpc.StatusCode.UNKNOWN, "net/http: timeout awaiting response headers", PullFailure.TIMEOUT),
        (grpc.StatusCode.UNKNOWN, "dial tcp: connection refused", PullFailure.REGISTRY_UNREACHABLE),
        (grpc.StatusCode.UNKNOWN, "failed commit on ref x: unexpected commit digest y", PullFailure.CORRUPT),
        (grpc.StatusCode.UNKNOWN, "failed commit on ref", PullFailure.PULL_FAILED),
    ],
    ids=["missing", "timeout", "rate-limit", "auth", "disk", "no-answer", "unreachable", "corrupt", "other"],
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
