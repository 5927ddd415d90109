"""A trainer that hangs is ended and started again; one that works, or cannot be heard, never is."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operator.run.manifests import SETTINGS

from sweyard_operator.plan.plan import Plan
from sweyard_operator.plan.stall import FIRST_REPORT_SECONDS
from sweyard_operator.resources import JOBS
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]

DEADLINE_SECONDS = 1_800
"""By default."""
LAST_WORDS = "step 12 of 30: waiting in all_reduce"


def job(world: RunWorld, attempt: int = 0) -> dict[str, Any]:
    return world.objects[JOBS, f"demo-trainer-{attempt}"]


def is_told_to_end(world: RunWorld, attempt: int = 0) -> bool:
    return "activeDeadlineSeconds" in job(world, attempt)["spec"]


def report(world: RunWorld, **fields: Any) -> None:
    world.report(0, **{"phase": "rl", "step": 12, "reportEverySeconds": 30, **fields})


def heed_deadline(world: RunWorld) -> None:
    """The Job's controller ends the pods, whose last words are seen, and then they are gone."""
    world.end_pod("demo-trainer-0-0", 137, LAST_WORDS)
    world.settle()
    world.pods.pop("demo-trainer-0-0")
    world.finish_job(0, "Failed", "DeadlineExceeded")
    world.settle()


@pytest.fixture
def working(running: Make) -> Make:
    """A world whose trainer runs and has reported."""

    def run(**changes: Any) -> RunWorld:
        world = running(**{"restart": {"limit": 1, "backoffSeconds": 0}, **changes})
        report(world)
        world.settle()
        return world

    return run


def test_a_trainer_that_hangs_is_started_again_within_the_budget_and_its_last_words_are_told(working: Make) -> None:
    world = working()
    world.wait(DEADLINE_SECONDS - 1)
    assert world.step().requeue_after_seconds == 1
    assert not is_told_to_end(world)
    assert "restart.stallDeadlineSeconds (1800) it is started again" in world.condition("Progressing")["message"]
    world.wait(1)
    world.settle()
    assert is_told_to_end(world)
    assert (world.condition("Progressing")["reason"], world.run["status"]["phase"]) == ("Stalled", "Restarting")
    heed_deadline(world)
    failure = world.run["status"]["lastFailure"]
    assert (failure["reason"], failure["attempt"], failure["step"]) == ("Stalled", 0, 12)
    assert failure["message"] == (
        "it did not report for restart.stallDeadlineSeconds (1800), until 00:30:00 UTC; pod demo-trainer-0-0: trainer "
        f"ended with exit code 137: {LAST_WORDS}"
    )
    assert world.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"]
    assert (world.run["status"]["attempts"], world.run["status"]["restarts"]) == (2, 1)


def test_a_trainer_that_hangs_once_more_than_the_budget_allows_fails_the_run(working: Make) -> None:
    world = working(restart={"limit": 0})
    world.wait(DEADLINE_SECONDS)
    world.settle()
    heed_deadline(world)
    failed = world.condition("Failed")
    assert (failed["status"], failed["reason"]) == ("True", "RestartLimitReached")
    assert LAST_WORDS in failed["message"]


def test_a_trainer_that_ends_well_after_all_has_succeeded(working: Make) -> None:
    world = working()
    world.wait(DEADLINE_SECONDS)
    world.settle()
    world.end_gang(0, exit_code=0)
    world.settle()
    assert world.run["status"]["phase"] == "Succeeded"


def speak(world: RunWorld) -> None:
    report(world)


def lose_contact(world: RunWorld) -> None:
    world.outages += 1


def restart_operator(world: RunWorld) -> None:
    world.restart_operator()


def lose_node_for_a_while(world: RunWorld) -> None:
    ready = world.pods["demo-trainer-0-0"]["status"]["conditions"]
    world.pods["demo-trainer-0-0"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    world.step()
    world.pods["demo-trainer-0-0"]["status"]["conditions"] = ready


EXCUSES = [speak, lose_contact, restart_operator, lose_node_for_a_while]


@pytest.mark.parametrize("excuse", EXCUSES)
def test_its_time_begins_anew_with(working: Make, excuse: Callable[[RunWorld], None]) -> None:
    world = working()
    world.wait(DEADLINE_SECONDS - 10)
    world.step()
    excuse(world)
    world.step()
    world.wait(DEADLINE_SECONDS - 10)
    world.step()
    assert not is_told_to_end(world)
    world.wait(10)
    world.step()
    assert is_told_to_end(world)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"restart": {"stallDeadlineSeconds": 0}}, {}),
        ({}, {"reportEverySeconds": None}),
    ],
    ids=["never, as the run wants it", "a trainer that promised nothing"],
)
def test_it_is_left_alone(running: Make, changes: dict[str, Any], fields: dict[str, Any]) -> None:
    world = running(**changes)
    report(world)
    world.run["status"]["trainer"] |= fields
    world.settle()
    for _ in range(10):
        world.wait(DEADLINE_SECONDS)
        world.settle()
    assert not is_told_to_end(world)


@pytest.mark.parametrize(
    ("deadline", "seconds", "told"),
    [
        (120, FIRST_REPORT_SECONDS, "the 1800 s that it has for its first report"),
        (DEADLINE_SECONDS, DEADLINE_SECONDS, "restart.stallDeadlineSeconds (1800)"),
        (7_200, 7_200, "restart.stallDeadlineSeconds (7200)"),
    ],
)
@pytest.mark.parametrize("before", [{}, {"attempt": 7, "reportEverySeconds": 30}], ids=["no report", "another's"])
def test_one_that_never_reports_is_started_again_and_that_is_told_before(
    running: Make, deadline: int, seconds: int, told: str, before: dict[str, Any]
) -> None:
    world = running(restart={"stallDeadlineSeconds": deadline, "limit": 1, "backoffSeconds": 0})
    if before:
        world.report(**before)
        world.settle()
    world.wait(seconds - 1)
    assert world.step().requeue_after_seconds == 1
    assert not is_told_to_end(world)
    assert world.condition("Progressing")["message"] == (
        "the trainer has not reported since 00:00:00 UTC; see kubectl logs job/demo-trainer-0; after "
        f"{told} it is started again"
    )
    world.wait(1)
    world.settle()
    heed_deadline(world)
    failure = world.run["status"]["lastFailure"]
    assert failure["message"].startswith(f"it did not report for {told}, until ")
    assert (failure["reason"], failure.get("step")) == ("Stalled", None)
    assert world.names(JOBS) == ["demo-trainer-0", "demo-trainer-1"]


def test_its_first_report_is_waited_for_from_when_all_its_pods_run(make_world: Make) -> None:
    world = make_world(trainer={"replicas": 2, "processesPerReplica": 1})
    for do in (lambda: None, world.serve, lambda: world.start_pod("demo-trainer-0-0", "trainer")):
        do()
        world.settle()
    late = world.pods.pop("demo-trainer-0-1")  # as where a quota forbids it for a while
    for seconds in (0, 800):
        world.wait(seconds)
        world.settle()
    world.pods["demo-trainer-0-1"] = late
    world.run_gang(0)
    world.settle()
    world.wait(DEADLINE_SECONDS - 1)
    world.settle()
    assert not is_told_to_end(world)
    world.wait(1)
    world.settle()
    assert is_told_to_end(world)


def test_one_whose_pods_have_all_ended_well_is_waited_for_and_not_ended(working: Make) -> None:
    world = working()
    world.end_pod("demo-trainer-0-0", 0)
    world.settle()
    world.wait(2 * DEADLINE_SECONDS)
    world.settle()
    assert not is_told_to_end(world)


def test_pods_that_are_told_to_go_by_others_are_given_their_time(working: Make) -> None:
    world = working()
    world.pods["demo-trainer-0-0"]["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    world.step()
    world.wait(2 * DEADLINE_SECONDS)
    world.step()
    assert not is_told_to_end(world)


def test_the_deadline_may_change_while_it_hangs(working: Make) -> None:
    world = working(restart={"stallDeadlineSeconds": 0})
    world.wait(DEADLINE_SECONDS)
    world.settle()
    world.run["spec"]["restart"] = {"stallDeadlineSeconds": 600}
    world.step()
    assert is_told_to_end(world)


def test_a_suspended_run_is_ended_by_its_suspension_alone(working: Make) -> None:
    world = working()
    world.wait(DEADLINE_SECONDS)
    world.suspend(True)
    plan: Plan = world.step()
    assert not plan.patch
    assert [deletion.name for deletion in plan.delete] == ["demo-trainer-0"]


steps = st.lists(
    st.tuples(st.integers(0, 90) | st.just(600), st.sampled_from([None, None, None, *EXCUSES])), max_size=60
)


@given(steps, st.booleans())
def test_it_is_ended_exactly_when_all_that_could_excuse_it_is_too_long_ago(
    story: list[tuple[int, Any]], has_reported: bool
) -> None:
    tasks = {"train": {"dataset": "tiny", "split": "train"}}
    world = RunWorld({"preset": "tiny", "tasks": tasks, "restart": {"stallDeadlineSeconds": 120}}, SETTINGS)
    for do in (lambda: None, world.serve, lambda: world.run_gang(0), lambda: has_reported and report(world)):
        do()
        world.settle()
    silent_seconds = 0
    for seconds, excuse in story:
        world.wait(seconds)
        silent_seconds += seconds
        if excuse is not None:
            excuse(world)
            silent_seconds = 0
            has_reported = has_reported or excuse is speak
        world.step()
        is_due = silent_seconds >= (120 if has_reported else FIRST_REPORT_SECONDS)
        assert is_told_to_end(world) == is_due
        if is_due:
            return
