"""Reading a run's directory at any moment of its life."""

import json
import math
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tests.cli.conftest import ROWS, TINY, attempt, evaluation_row, step_row

from sweyard_api.resolve import dump_config, resolve
from sweyard_cli.ending import learning_lines, show_ending
from sweyard_cli.errors import UserError
from sweyard_cli.report.page import state_of
from sweyard_cli.results.attempts import evenly, load_attempt
from sweyard_cli.results.run_results import MAX_STEPS_READ, read_results

MakeRun = Callable[..., Path]


def test_a_line_that_is_being_written_is_left_out(make_run: MakeRun) -> None:
    run = make_run()
    with (run / "metrics" / "metrics.jsonl").open("a") as file:
        file.write('{"phase": "rl", "step": 3, "rollout/rew')
    assert read_results(run).series("rollout/reward_mean") == [(1.0, 0.25), (2.0, 0.75)]


def test_half_a_line_in_the_middle_costs_that_line_alone(make_run: MakeRun) -> None:
    run = make_run()
    (run / "metrics" / "metrics.jsonl").write_text('{"step": \n' + json.dumps(step_row(1, 0.25)) + "\n\n17\n")
    assert read_results(run).series("rollout/reward_mean") == [(1.0, 0.25)]


def test_attempts_are_found_again_behind_text_of_many_bytes(make_run: MakeRun) -> None:
    wordy = attempt("t1", transcript=[{"role": "user", "content": "\N{SNOWMAN}" * 1000}])
    run = make_run(attempts={"step-000001": [wordy, attempt("t2")]})
    first, second = (load_attempt(key) for key in read_results(run).steps[1])
    assert first.messages[0][1] == "\N{SNOWMAN}" * 1000
    assert (second.task_id, second.num_sampled_tokens) == ("t2", 3)


def test_a_rollout_file_that_is_none_is_named(make_run: MakeRun) -> None:
    run = make_run()
    (run / "rollouts" / "step-000001.parquet").write_bytes(b"{}")
    with pytest.raises(UserError, match=r"step-000001.parquet is no rollout file"):
        read_results(run)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("progress.json", '{"totalSteps": [2]}'),
        ("summary.json", '{"steps": NaN}'),
        ("summary.json", '{"evaluations": {"final": [{"source": "heldout"}]}}'),
        ("metrics/metrics.jsonl", '{"step": 1, "phase": "evaluation", "eval/heldout/solved_fraction": "x"}\n'),
    ],
)
def test_a_file_with_something_else_in_it_is_named(make_run: MakeRun, name: str, content: str) -> None:
    run = make_run()
    (run / name).write_text(content)
    with pytest.raises(UserError, match=rf"{name} holds no .*: it is damaged, or another program's"):
        read_results(run)


def test_an_attempt_at_a_task_whose_name_no_file_can_hold_is_read(make_run: MakeRun) -> None:
    [key] = read_results(make_run(attempts={"step-000001": [attempt("t\ud800")]})).steps[1]
    assert load_attempt(key).task_id == "t\ud800"


def test_an_attempt_whose_text_is_damaged_is_told_with_its_file(make_run: MakeRun) -> None:
    run = make_run(attempts={"step-000001": [attempt(grading_log="a log that is found in the file")]})
    path = run / "rollouts" / "step-000001.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"a log that is found", b"a log that is fount"))
    [key] = read_results(run).steps[1]
    with pytest.raises(UserError, match=r"step-000001\.parquet is no rollout file: it is damaged"):
        load_attempt(key)


def test_not_a_number_is_kept_as_such(make_run: MakeRun) -> None:
    results = read_results(make_run(rows=[step_row(1, math.nan), step_row(2, 0.5)]))
    (_, first), (_, second) = results.series("rollout/reward_mean")
    assert math.isnan(first)
    assert second == 0.5


def test_a_run_that_failed_before_its_first_step_has_no_figures(make_run: MakeRun) -> None:
    progress = {"phase": "starting", "step": 0, "totalSteps": 30, "message": "loading the model"}
    results = read_results(make_run(rows=[], attempts={}, progress=progress))
    assert (results.evaluations, dict(results.steps), results.is_finished) == ([], {}, False)


def test_only_a_run_s_directory_is_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        read_results(tmp_path)


@pytest.mark.parametrize("name", ["summary.json", "progress.json", "config.yaml"])
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"], ids=["cut off", "a list", "no text"])
def test_a_damaged_file_is_named(make_run: MakeRun, name: str, content: bytes) -> None:
    run = make_run()
    (run / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name} holds no (JSON object|YAML mapping)"):
        read_results(run)


def report(source: str, **figures: Any) -> dict[str, Any]:
    """As the trainer's summary has it."""
    return {
        "source": source,
        "attempts": 40,
        "solved": 16,
        "solved_fraction": 0.4,
        "low": 0.26,
        "high": 0.55,
        "infra_failures": 1.0,
        **figures,
    }


def test_evaluations_come_from_the_summary_of_a_finished_run(make_run: MakeRun) -> None:
    evaluations = {"final": [report("heldout")]}
    summary = {"run": "named", "steps": 2, "evaluations": evaluations, "seconds": {"step": 61.0}}
    results = read_results(make_run(summary=summary))
    (evaluation,) = results.evaluations
    assert (results.name, evaluation.title) == ("named", "after training")
    assert evaluation.sources[0].solved_fraction == 0.4
    assert evaluation.sources[0].infra_failures == 1


def test_an_evaluation_alone_is_not_said_to_come_after_training(make_run: MakeRun) -> None:
    progress = {"phase": "evaluating", "step": 0, "totalSteps": 0}
    run = make_run(rows=[evaluation_row(0, 0.4)], attempts={}, progress=progress)
    (run / "config.yaml").write_text(dump_config(resolve({**TINY, "mode": "eval"})))
    assert [evaluation.title for evaluation in read_results(run).evaluations] == ["this model"]
    assert state_of(read_results(run)) == "Not finished: before its end."

    summary = {"mode": "eval", "steps": 0, "evaluations": {"final": [report("heldout")]}, "seconds": {"evaluation": 61}}
    (run / "summary.json").write_text(json.dumps(summary))
    assert [evaluation.title for evaluation in read_results(run).evaluations] == ["this model"]
    assert state_of(read_results(run)) == "Finished: evaluated in 1 min 01 s."


def test_several_attempts_and_repositories_are_told_on_the_page_and_on_the_terminal(
    make_run: MakeRun,
) -> None:
    several: dict[str, Any] = {"pass@1": 0.4, "pass@4": 0.75, "best@4": 0.625}
    red, blue = report("red", **{"pass@4": 0.875}), report("blue", attempts=0, solved=0)
    several["unverified"] = "2 tasks: there is no verifier"
    source = report("heldout", **several, repositories={"red": red, "blue": blue})
    summary = {"run": "named", "steps": 2, "evaluations": {"final": [source]}, "seconds": {}}
    run = make_run(summary=summary)
    console = Console(file=StringIO(), width=200)
    show_ending(run, console, [])
    assert isinstance(console.file, StringIO)
    told, page = console.file.getvalue(), (run / "report.html").read_text(encoding="utf-8")
    for text in (told, page):
        assert "pass@4 75 %" in text
        assert "best@4 62.5 %" in text
        assert "pass@1" not in text
        assert "2 tasks: there is no verifier" in text
        assert "pass@4 87.5 %" in text
        assert "By repository" in text or "by repository" in text
        assert "blue" in text


STEPS = [{"phase": "sft", "step": step, "train/loss": 6.0 / step} for step in (1, 2, 3)]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (ROWS, ["mean reward: 0.250 in step 1, 0.750 in step 2"]),
        ([step_row(1, 0.25)], ["mean reward: 0.250 in step 1"]),
        (STEPS, ["loss: 6.000 in step 1, 2.000 in step 3"]),
        ([evaluation_row(0, 0.5)], []),
    ],
    ids=["several steps", "one step", "supervised", "nothing trained"],
)
def test_a_run_ends_with_what_its_first_and_last_step_had(
    make_run: MakeRun, rows: list[dict[str, Any]], told: list[str]
) -> None:
    assert learning_lines(read_results(make_run(rows=rows))) == told


LABELS: dict[str, tuple[list[dict[str, Any]], int, list[str]]] = {
    "with a warm-up": (list(ROWS), 2, ["untrained", "warmed-up", "final"]),
    "before the warm-up": (list(ROWS[:2]), 2, ["untrained"]),
    "without a warm-up": (
        [evaluation_row(0, 0.0), step_row(1, 0.1), evaluation_row(1, 0.1)],
        1,
        ["untrained", "final"],
    ),
    "on the way": ([evaluation_row(0, 0.0), evaluation_row(10, 0.1)], 30, ["untrained", "step-10"]),
    "evaluation alone": ([evaluation_row(0, 0.4)], 0, ["final"]),
    "progress unknown": ([evaluation_row(0, 0.4), evaluation_row(30, 0.5)], -1, ["untrained", "step-30"]),
}


@pytest.mark.parametrize(("rows", "total", "labels"), LABELS.values(), ids=LABELS)
def test_evaluations_of_an_unfinished_run_are_told_apart(
    make_run: MakeRun, rows: list[dict[str, Any]], total: int, labels: list[str]
) -> None:
    progress = {"step": 0, "totalSteps": total} if total >= 0 else None
    assert [
        evaluation.label for evaluation in read_results(make_run(rows=rows, progress=progress)).evaluations
    ] == labels


def test_of_a_long_run_some_steps_are_read_the_first_and_the_last_among_them(make_run: MakeRun) -> None:
    attempts = {f"step-{step:06d}": [attempt(f"t{step}")] for step in range(1, 3 * MAX_STEPS_READ)}
    steps = list(read_results(make_run(attempts=attempts)).steps)
    assert len(steps) == MAX_STEPS_READ
    assert (steps[0], steps[-1]) == (1, 3 * MAX_STEPS_READ - 1)
    assert steps == sorted(set(steps))


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7, 1000])
def test_evenly_chosen_items_are_distinct_and_in_order(count: int) -> None:
    chosen = evenly(list(range(count)), 6)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(count, 6)
