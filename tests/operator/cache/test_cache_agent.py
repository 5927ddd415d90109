"""The agent of one node: pulls in order within its limit, retries with backoff, reports what it holds."""

from pathlib import Path

from tests.operator.cache.fake_node import FakeNode, manifest, passes

from sweyard_operator.cache_agent.agent import REWRITE_SECONDS
from sweyard_operator.cache_agent.cri import PullError
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import Assignment, ImageState, PullFailure
from sweyard_operator.cache_agent.survey import RECHECK_SECONDS


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


async def test_an_agent_that_can_only_wait_for_what_failed_looks_rarely() -> None:
    node = FakeNode(Assignment(images=("a:1", "b:1"), max_parallel_pulls=1), slow={"b:1"})
    node.errors["a:1"] = PullError(PullFailure.NOT_FOUND, "a:1: not found")
    agent = node.agent()
    await passes(agent, 4)
    assert not agent.is_idle, "b is being pulled"
    node.assignment = Assignment(images=("a:1",), max_parallel_pulls=1)
    await passes(agent, 1)
    assert agent.is_idle
    await agent.close()


async def test_a_pull_that_is_refused_tells_which_secret_lacks(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    node = FakeNode(Assignment(images=("r.test/a:1",), max_parallel_pulls=1), secrets=tmp_path)
    node.errors["r.test/a:1"] = PullError(PullFailure.UNAUTHORIZED, "401 Unauthorized")
    said = (await passes(node.agent(), 5)).images["r.test/a:1"]
    assert said.message.startswith("no Secret named in pullSecrets (mine) has credentials for r.test; Secret mine does")
    assert said.message.endswith("; 401 Unauthorized")


async def test_a_certificate_that_the_node_does_not_know_is_reported_with_the_remedy() -> None:
    node = FakeNode(Assignment(images=("r.test/a:1",), max_parallel_pulls=2))
    node.errors["r.test/a:1"] = PullError(PullFailure.CERTIFICATE_UNKNOWN, "x509: unknown authority")
    said = (await passes(node.agent(), 5)).images["r.test/a:1"]
    assert said.reason is PullFailure.CERTIFICATE_UNKNOWN
    assert "/etc/containerd/certs.d/r.test/hosts.toml" in said.message


async def test_what_the_kubelet_removed_is_pulled_again() -> None:
    node = FakeNode(Assignment(images=("a:1",), max_parallel_pulls=1))
    agent = node.agent()
    await passes(agent, 3)
    node.held.clear()
    said = await passes(agent, 3)
    assert node.pulls == ["a:1", "a:1"]
    assert said.images["a:1"].state is ImageState.CACHED


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
