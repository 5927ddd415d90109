"""Whatever happens to the children, in whatever order: the promises of plan/training_run.py."""

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sweyard_operator.build.run_context import RunSettings
from sweyard_operator.resources import JOBS, STATEFUL_SETS
from sweyard_operator.testing.run_world import RunWorld

LIMIT = 1

ACTIONS = st.sampled_from(
    [
        *("step", "lost status", "settle", "start", "start", "fail", "fail", "fail slowly", "fail slowly"),
        *("succeed", "user fault", "wait", "settle", "start", "fail"),
        *("strand", "evict", "lose node", "wait long", "start"),
        *("suspend", "resume", "bury", "wait", "kill engine", "delete job", "end stragglers", "report"),
    ]
)


def new_world() -> RunWorld:
    spec: dict[str, Any] = {
        "preset": "tiny",
        "tasks": {"train": {"dataset": "tiny"}},
        "trainer": {"device": "cpu", "dtype": "float32", "replicas": 2},
        "restart": {"limit": LIMIT, "backoffSeconds": 10},
    }
    return RunWorld(spec, RunSettings("registry.example/sweyard-trainer:1"))


def newest(world: RunWorld) -> int | None:
    """The attempt of the newest Job that has no verdict."""
    attempts = [int(name.rsplit("-", 1)[1]) for name in world.names(JOBS)]
    if not attempts or world.objects[JOBS, f"demo-trainer-{max(attempts)}"].get("status", {}).get("conditions"):
        return None
    return max(attempts)


def end(world: RunWorld, exit_code: int) -> None:
    attempt = newest(world)
    if attempt is not None:
        world.end_gang(attempt, exit_code=exit_code, said="the end")


def fail_slowly(world: RunWorld) -> None:
    """The Job has failed, and one of its pods still runs, on a node that nobody hears of."""
    attempt = newest(world)
    if attempt is not None:
        world.end_gang(attempt, exit_code=1)
        pod = world.pods[f"demo-trainer-{attempt}-1"]
        pod["status"] = {"phase": "Running"}
        pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"


def strand(world: RunWorld) -> None:
    """No node takes a pod of the newest gang."""
    attempt = newest(world)
    if attempt is not None:
        world.strand_pod(f"demo-trainer-{attempt}-1")


def evict(world: RunWorld) -> None:
    """A drain ends a pod of the newest gang, and so the gang."""
    attempt = newest(world)
    if attempt is not None:
        disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "x"}
        world.end_gang(attempt, exit_code=143)
        world.pods[f"demo-trainer-{attempt}-1"]["status"]["conditions"] = [disruption]


def lose_node(world: RunWorld) -> None:
    """Nobody hears of the node of a gang whose Job has failed."""
    attempt = newest(world)
    if attempt is not None:
        fail_slowly(world)
        world.pods[f"demo-trainer-{attempt}-1"]["spec"]["nodeName"] = "node-b"
        world.lost_nodes.add("node-b")


def run_gang(world: RunWorld) -> None:
    attempt = newest(world)
    if attempt is not None:
        world.run_gang(attempt)


def delete_job(world: RunWorld) -> None:
    attempt = newest(world)
    if attempt is not None:
        del world.objects[JOBS, f"demo-trainer-{attempt}"]
        for index in range(2):
            world.pods[f"demo-trainer-{attempt}-{index}"]["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"


def kill_engine(world: RunWorld) -> None:
    if "demo-engine-0" in world.pods:
        world.pods["demo-engine-0"]["status"] = {"phase": "Failed", "reason": "Evicted", "message": "disk"}


def act(world: RunWorld, action: str) -> None:
    match action:
        case "step":
            world.step()
        case "lost status":
            world.step(writes_status=False)
        case "prepare":
            world.settle()
            world.serve()
        case "settle":
            world.settle()
        case "start":
            start(world)
        case "fail":
            end(world, 1)
        case "fail slowly":
            fail_slowly(world)
        case "succeed":
            end(world, 0)
        case "user fault":
            end(world, 2)
        case "suspend" | "resume":
            world.suspend(action == "suspend")
        case "bury" | "end stragglers":
            world.bury_pods()
        case "wait":
            world.wait(15)
        case "wait long":
            world.wait(1_000)
        case "strand":
            strand(world)
        case "evict":
            evict(world)
        case "lose node":
            lose_node(world)
        case "kill engine":
            kill_engine(world)
        case "delete job":
            delete_job(world)
        case "report":
            world.report(0, phase="rl", step=1)


def start(world: RunWorld) -> None:
    """The back-off passes, all that exists gets ready, and the trainer runs."""
    world.wait(600)
    world.settle()
    world.serve()
    world.settle()
    run_gang(world)


def verdict(world: RunWorld) -> str | None:
    found = [kind for kind in ("Succeeded", "Failed") if world.condition(kind).get("status") == "True"]
    assert len(found) < 2
    return found[0] if found else None


def converge(world: RunWorld) -> None:
    """From here on all goes well: the run must come to its end, or to rest if it is suspended."""
    for _ in range(12):
        world.bury_pods()
        world.serve()
        run_gang(world)
        world.settle()
        world.wait(600)
    if world.run["spec"].get("suspend") and verdict(world) is None:
        assert world.run["status"]["phase"] == "Suspended"
        assert not world.names(STATEFUL_SETS)
        world.suspend(False)
        converge(world)
        return
    if verdict(world) is None:
        end(world, 0)
        world.settle()
    assert verdict(world) is not None
    assert not world.names(STATEFUL_SETS)


@settings(max_examples=settings.default.max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, max_size=40))
# An operator that dies after it made a Job, and again after it deleted it for a suspension.
@example(["prepare", "lost status", "suspend", "lost status", "bury", "lost status", "resume", "start"])
@example(["start", "fail", "start", "fail", "start", "fail", "start"])
@example(["start", "evict", "start", "evict", "start", "evict", "start"])
@example(["settle", "start", "strand", "wait long", "settle", "bury", "settle", "wait long", "start"])
@example(["start", "lose node", "wait long", "settle", "start"])
def test_promises_hold_whatever_happens(actions: list[str]) -> None:
    world, before, attempts = new_world(), None, 0
    jobs: dict[str, str] = {}
    for action in actions:
        act(world, action)
        for name in world.names(JOBS):
            uid = world.objects[JOBS, name]["metadata"]["uid"]
            assert jobs.setdefault(name, uid) == uid, "one attempt, two Jobs"
        assert len(world.live_attempts()) <= 1
        assert world.run["status"].get("restarts", 0) <= LIMIT
        assert world.run["status"].get("attempts", 0) >= attempts
        attempts = world.run["status"].get("attempts", 0)
        after = verdict(world)
        assert before is None or after == before
        before = after
    converge(world)
    assert len(world.live_attempts()) <= 1
    assert world.run["status"]["restarts"] <= LIMIT
