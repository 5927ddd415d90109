import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.constants import EXIT_CODE_USER_FAULT
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.errors import NothingToTrainError, ReportRefusedError, StoppedError
from sweyard_trainer.exit_codes import FAILED, exit_code_of
from sweyard_trainer.phases.policy import AgentFailsError, NoSignalError
from sweyard_trainer.restarts import RESTARTS_FILE
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollouts.reading import read_attempts
from sweyard_trainer.train import TrainingLoop


def drawn_tasks(storage: Path) -> dict[str, list[str]]:
    return {
        path.stem: sorted(attempt.attempt_id for attempt in read_attempts(path))
        for path in sorted((storage / "rollouts").glob("step-*.parquet"))
    }


def metric_rows(storage: Path) -> list[tuple[str, int]]:
    rows = (storage / "metrics" / "metrics.jsonl").read_text().splitlines()
    return [(row["phase"], row["step"]) for row in map(json.loads, rows)]


async def test_a_run_goes_through_its_stages_in_order(world: Any, make_life: Callable[..., Any]) -> None:
    summary = await TrainingLoop(make_life(world).run).run()
    assert summary["steps"] == 6
    assert list(summary["evaluations"]) == ["untrained", "warmed-up", "step-3", "final"]
    assert metric_rows(world.storage) == [
        ("evaluation", 0),
        ("warmup", 1),
        ("warmup", 2),
        ("warmup", 3),
        ("evaluation", 0),
        ("rl", 1),
        ("rl", 2),
        ("rl", 3),
        ("evaluation", 3),
        ("rl", 4),
        ("rl", 5),
        ("rl", 6),
        ("evaluation", 6),
    ]
    assert json.loads((world.storage / "summary.json").read_text()) == summary
    progress = json.loads((world.storage / "progress.json").read_text())
    assert (progress["phase"], progress["step"], progress["progressPercentage"]) == ("finished", 6, 100)
    assert progress["metrics"]["eval/held"] == 1.0
    assert progress["lastCheckpoint"] == "checkpoints/step-6"


@pytest.mark.parametrize(
    "mode", [pytest.param({}, id="rl"), pytest.param({"mode": "sft", "sft": {"datasets": ["/chats.jsonl"]}}, id="sft")]
)
async def test_engines_rest_while_the_learner_computes_and_are_awake_for_every_attempt(
    world: Any, make_life: Callable[..., Any], mode: dict[str, Any]
) -> None:
    life = make_life(world, **mode)
    sync, rested = life.run.weight_sync, []

    def noting(of: Any, name: str) -> None:
        call = getattr(of, name)

        async def noted(*arguments: Any) -> Any:
            rested.append((name, sync.rests))
            return await call(*arguments)

        setattr(of, name, noted)

    for name in ("start", "sft_step", "train_step"):
        noting(life.learner, name)
    noting(life.worker, "run")
    await TrainingLoop(life.run).run()
    assert {name for name, _ in rested} == {"start", "sft_step", "run"} | ({"train_step"} if not mode else set())
    assert all(rests == (name != "run") for name, rests in rested)


async def test_every_attempt_is_sampled_by_the_weights_of_its_step(world: Any, make_life: Callable[..., Any]) -> None:
    await TrainingLoop(make_life(world).run).run()
    attempts = [event.split() for event in world.events if event.startswith("attempt")]
    versions = {label.split("/")[0]: version for _, label, _, version in attempts}
    assert versions["eval-untrained-held"] == "0"
    assert versions["eval-warmed-up-held"] == "1"
    assert [versions[str(step)] for step in range(1, 7)] == ["1", "2", "3", "4", "5", "6"]
    assert versions["eval-final-held"] == "7"
    for version in range(8):
        assert world.events.index(f"weights {version}") < world.events.index(f"publish {version}")


async def test_an_evaluation_goes_on_beside_the_next_steps_attempts_and_ends_before_it_trains(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world)
    sources = {**life.run.eval_tasks, "other": life.run.train_tasks[:2]}
    run, begun = life.worker.run, {kind: asyncio.Event() for kind in ("eval-step-3-held", "eval-step-3-other", "4")}

    async def wait_for_one_of_each_kind(plan: AttemptPlan) -> Any:
        attempt, kind = await run(plan), plan.attempt_id.split("/")[0]
        if kind in begun:
            begun[kind].set()
            await asyncio.gather(*(other.wait() for other in begun.values()))
        return attempt

    life.worker.run = wait_for_one_of_each_kind
    pool = WorkerPool([life.worker], max_concurrent=6)  # all five of the evaluation, and one more
    await asyncio.wait_for(TrainingLoop(replace(life.run, eval_tasks=sources, pool=pool)).run(), 60)
    evaluated = [n for n, event in enumerate(world.events) if event.startswith("attempt eval-step-3")]
    trained = [n for n, event in enumerate(world.events) if event == "train"]
    assert {world.events[n].rsplit(" ", 1)[1] for n in evaluated} == {"4"}
    assert world.events.index("checkpoint step-3") < min(evaluated)
    assert max(evaluated) < trained[3]


async def undisturbed(tmp_path: Path, world: Any, make_life: Callable[..., Any]) -> tuple[Any, int, int]:
    other = type(world)(tmp_path / "undisturbed")
    other.storage.mkdir()
    life = make_life(other)
    await TrainingLoop(life.run).run()
    return other, life.learner.weights, len(other.events)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.2, 0.3, 0.37, 0.5, 0.55, 0.63, 0.7, 0.83, 0.9, 0.97, 0.99])
async def test_a_run_killed_anywhere_ends_with_the_same_weights_tasks_and_figures(
    tmp_path: Path, world: Any, make_life: Callable[..., Any], crash: Callable[..., Any], share: float
) -> None:
    reference, weights, num_events = await undisturbed(tmp_path, world, make_life)
    world.crash_at = int(share * num_events)
    async with crash():
        await TrainingLoop(make_life(world).run).run()
    life = make_life(world)
    summary = await TrainingLoop(life.run).run()
    assert life.learner.weights == weights
    assert drawn_tasks(world.storage) == drawn_tasks(reference.storage)
    assert metric_rows(world.storage) == metric_rows(reference.storage)
    assert summary["evaluations"] == json.loads((reference.storage / "summary.json").read_text())["evaluations"]


async def test_a_run_asked_to_stop_while_its_ranks_do_not_come_ends_without_them(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world)
    loop = TrainingLoop(life.run)

    async def wait_for_ranks() -> None:
        loop.stop()
        await asyncio.Event().wait()

    life.learner.start = wait_for_ranks
    with pytest.raises(StoppedError):
        await loop.run()
    assert not [event for event in world.events if event.startswith("checkpoint")]
    assert "learner" in world.ended


async def test_a_run_that_may_not_report_loads_nothing(world: Any, make_life: Callable[..., Any]) -> None:
    life = make_life(world)

    async def refuse() -> None:
        raise ReportRefusedError("demo is forbidden")

    life.run.progress.begin = refuse
    with pytest.raises(ReportRefusedError):
        await TrainingLoop(life.run).run()
    assert not world.events
    assert "learner" in world.ended


async def test_a_run_asked_to_stop_checkpoints_and_goes_on_exactly(
    tmp_path: Path, world: Any, make_life: Callable[..., Any]
) -> None:
    reference, weights, _ = await undisturbed(tmp_path, world, make_life)
    life = make_life(world)
    loop = TrainingLoop(life.run)

    run = life.worker.run

    async def stop_in_step_four(plan: AttemptPlan) -> Any:
        if plan.attempt_id.startswith("4/") and plan.attempt_id.endswith("/2"):
            loop.stop()
            await asyncio.Event().wait()  # under way for longer than anybody waits
        return await run(plan)

    life.worker.run = stop_in_step_four
    with pytest.raises(StoppedError, match="after step 3"):
        await loop.run()
    assert "checkpoint step-3" in world.events
    assert not (world.storage / RESTARTS_FILE).exists()
    again = make_life(world)
    await TrainingLoop(again.run).run()
    assert [json.loads(line)["step"] for line in (world.storage / RESTARTS_FILE).read_text().splitlines()] == [3]
    assert again.learner.weights == weights
    assert drawn_tasks(world.storage) == drawn_tasks(reference.storage)


async def test_what_cannot_be_written_keeps_nothing_back(world: Any, make_life: Callable[..., Any]) -> None:
    run = make_life(world).run
    (world.storage / "progress.tmp").mkdir()
    with pytest.raises(IsADirectoryError):
        await TrainingLoop(run).run()
    assert world.ended == ["worker", "learner"]


async def test_a_finished_run_started_again_trains_no_further(world: Any, make_life: Callable[..., Any]) -> None:
    await TrainingLoop(make_life(world).run).run()
    before = world.events.count("train")
    await TrainingLoop(make_life(world).run).run()
    assert world.events.count("train") == before


async def test_engines_get_the_checkpoints_version_before_the_first_rollout_of_a_resumed_run(
    world: Any, make_life: Callable[..., Any]
) -> None:
    await TrainingLoop(make_life(world, steps=3).run).run()
    del world.events[:]
    await TrainingLoop(make_life(world, steps=4).run).run()
    assert world.events[:3] == ["start", "weights 4", "publish 4"]


async def test_evaluation_mode_trains_nothing(world: Any, make_life: Callable[..., Any]) -> None:
    summary = await TrainingLoop(make_life(world, mode="eval").run).run()
    assert list(summary["evaluations"]) == ["final"]
    assert not {"sft", "train"} & set(world.events)


async def test_supervised_mode_only_imitates(world: Any, make_life: Callable[..., Any]) -> None:
    summary = await TrainingLoop(make_life(world, mode="sft", sft={"datasets": ["chats.jsonl"]}).run).run()
    assert world.events.count("sft") == 6
    assert "train" not in world.events
    assert summary["steps"] == 6
    assert list(summary["evaluations"]) == ["untrained", "step-3", "final"]
    synced = [event for event in world.events if event.startswith("weights")]
    assert synced == ["weights 0", "weights 3", "weights 6"], "engines need the weights that are evaluated alone"
    assert json.loads((world.storage / "progress.json").read_text())["metrics"]["loss"] == 1.0


async def test_faulty_held_out_tasks_are_set_aside_and_named(world: Any, make_life: Callable[..., Any]) -> None:
    life = make_life(world, held=("x", "faulty", "z"), reward={"verifyTasks": True})
    summary = await TrainingLoop(life.run).run()
    assert summary["tasks_set_aside"] == ["faulty"]
    assert [result["attempts"] for result in summary["evaluations"]["final"]] == [2]


async def test_a_slow_machine_is_no_verdict_on_held_out_tasks(world: Any, make_life: Callable[..., Any]) -> None:
    life = make_life(world, held=("x", "slow-once", "slow"), reward={"verifyTasks": True})
    summary = await TrainingLoop(life.run).run()
    [final] = summary["evaluations"]["final"]
    assert final["attempts"] == 2
    assert list(final["set_aside"]) == ["slow"]
    assert "too long" in final["set_aside"]["slow"]
    assert summary["tasks_set_aside"] == []


async def test_tasks_that_teach_nothing_end_the_run_in_a_sentence(world: Any, make_life: Callable[..., Any]) -> None:
    rollout = {"groupsPerStep": 1, "groupSize": 2, "maxConcurrent": 4}
    life = make_life(world, rollout=rollout, algorithm={"dynamicSampling": True, "maxRefills": 1})
    life.worker.run = lambda plan, run=life.worker.run: dull(run, plan)
    with pytest.raises(NoSignalError, match="dynamicSampling"):
        await TrainingLoop(life.run).run()


async def test_steps_of_which_every_attempt_is_lost_are_not_the_tasks_fault(
    world: Any, make_life: Callable[..., Any]
) -> None:
    async def train_nothing(*_: Any) -> None:
        raise NothingToTrainError("every attempt was lost to infrastructure")

    life = make_life(world, algorithm={"dynamicSampling": True, "maxRefills": 1})
    life.worker.run = lambda plan, run=life.worker.run: lost(run, plan)
    life.learner.train_step = train_nothing
    with pytest.raises(NothingToTrainError) as told:
        await TrainingLoop(life.run).run()
    assert exit_code_of(told.value) == FAILED


QUICK = {"type": "short", "timeoutSeconds": 1}


async def test_a_step_waits_for_engines_beyond_its_deadline(world: Any, make_life: Callable[..., Any]) -> None:
    life = make_life(world, steps=1, agent=QUICK, rollout={"stepDeadlineSeconds": 1})
    life.run.weight_sync.absent_at = math.inf
    life.worker.run = lambda plan, run=life.worker.run: late(run, plan)
    await TrainingLoop(life.run).run()
    [step] = (world.storage / "rollouts").glob("step-*.parquet")
    assert not any(attempt.outcome.is_infrastructure for attempt in read_attempts(step))


async def late(run: Callable[..., Any], plan: AttemptPlan) -> Any:
    if plan.attempt_id.startswith("1/"):
        await asyncio.sleep(1.5)
    return await run(plan)


async def lost(run: Callable[..., Any], plan: AttemptPlan) -> Any:
    return replace(await run(plan), reward=0.0, outcome=Outcome.ENV_INFRA)


async def dull(run: Callable[..., Any], plan: AttemptPlan) -> Any:
    return replace(await run(plan), reward=0.0)


async def broken(run: Callable[..., Any], plan: AttemptPlan) -> Any:
    words = [{"role": "assistant", "content": "I look"}, {"role": "tool", "content": "Error:\n  no login"}]
    return replace(await run(plan), reward=0.0, outcome=Outcome.AGENT_ERROR, transcript=words)


@pytest.mark.parametrize(("steps", "of"), [(6, 5), (2, 2)], ids=["a long run", "a short run"])
async def test_an_agent_that_ends_every_attempt_ends_the_run_in_a_sentence(
    world: Any, make_life: Callable[..., Any], steps: int, of: int
) -> None:
    life = make_life(world, steps=steps)
    life.worker.run = lambda plan, run=life.worker.run: broken(run, plan)
    with pytest.raises(AgentFailsError) as told:
        await TrainingLoop(life.run).run()
    assert str(told.value) == (
        f"every attempt of {of} steps was ended by a failure of its agent (agent_error), not of the model: mend what "
        "agent.type short runs; the last one's last words were: Error: no login"
    )
    assert exit_code_of(told.value) == EXIT_CODE_USER_FAULT


async def test_one_attempt_in_five_steps_that_its_agent_did_not_end_lets_the_run_go_on(
    world: Any, make_life: Callable[..., Any]
) -> None:
    life = make_life(world)
    attempt = life.worker.run
    life.worker.run = lambda plan: (dull if plan.attempt_id.startswith("3/") else broken)(attempt, plan)
    assert (await TrainingLoop(life.run).run())["steps"] == 6


LEARNS_NOTHING = {
    "no reward differs within a group": (dull, {}, True),
    "half of the attempts are solved": (None, {}, False),
    "an estimator that compares groups": (dull, {"algorithm": {"estimator": "reinforce_plus_plus"}}, False),
}


@pytest.mark.parametrize(("attempts", "spec", "is_told"), LEARNS_NOTHING.values(), ids=LEARNS_NOTHING)
async def test_a_finished_run_says_so_if_its_rewards_taught_nothing(
    world: Any, make_life: Callable[..., Any], attempts: Any, spec: dict[str, Any], is_told: bool
) -> None:
    life = make_life(world, **spec)
    if attempts is not None:
        life.worker.run = lambda plan, run=life.worker.run: attempts(run, plan)
    await TrainingLoop(life.run).run()
    message = json.loads((world.storage / "progress.json").read_text())["message"]
    assert ("learned nothing" in message) == is_told


async def test_the_warm_up_tells_its_steps_and_loss(
    world: Any, make_life: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    life = make_life(world)
    update = life.run.progress.update

    def listen(**fields: Any) -> None:
        told.append(fields.get("message", ""))
        update(**fields)

    monkeypatch.setattr(life.run.progress, "update", listen)
    await TrainingLoop(life.run).run()
    assert [message for message in told if message.startswith("warm-up: step")] == [
        f"warm-up: step {step} of 3, loss 1.000" for step in (1, 2, 3)
    ]


async def test_workers_are_told_what_engines_of_fixed_weights_sample_with(world, make_life) -> None:
    life = make_life(world)
    life.run.weight_sync.fixed_version = 0
    await TrainingLoop(life.run).run()
    versions = {event.rpartition(" by ")[2] for event in world.events if event.startswith("attempt ")}
    assert versions == {"0"}
    assert "publish 7" in world.events
