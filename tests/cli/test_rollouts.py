"""sweyard rollouts: what it lists, shows and writes, and that it needs no PyTorch for that."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import attempt

from sweyard_cli.commands.rollouts import replay_lines
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.replay import Replayed
from sweyard_trainer.rollouts.journal import Journal
from sweyard_trainer.trajectory import Trajectory

MakeRun = Callable[..., Path]
Sweyard = Callable[..., Any]

STEPS = {
    "eval-final-held": [attempt("h1", "solved", label="eval-final-held")],
    "step-000001": [
        attempt("gauge-1", "solved", label="1"),
        attempt("gauge-1", "unsolved", label="1", index=1, num_sampled_tokens=900),
        attempt("other-2", "max_turns", label="1", reward=0.25),
    ],
    "step-000012": [attempt("other-2", "env_infra", label="12")],
}
GAUGE_0, GAUGE_1, OTHER = "1/gauge-1/0", "1/gauge-1/1", "1/other-2/0"
HELD, LATE = "eval-final-held/h1/0", "12/other-2/0"

SELECTIONS: dict[str, tuple[list[str], list[str]]] = {
    "all": ([], [HELD, GAUGE_0, GAUGE_1, OTHER, LATE]),
    "an outcome": (["--outcome", "solved"], [HELD, GAUGE_0]),
    "two outcomes": (["--outcome", "unsolved", "--outcome", "env_infra"], [GAUGE_1, LATE]),
    "a reward": (["--reward", "1"], [HELD, GAUGE_0]),
    "a range of rewards": (["--reward", "<=.25", "--step", "1"], [GAUGE_1, OTHER]),
    "above": (["--reward", ">0"], [HELD, GAUGE_0, OTHER]),
    "a task": (["--task", "other-2"], [OTHER, LATE]),
    "a pattern of tasks": (["--task", "g*-1"], [GAUGE_0, GAUGE_1]),
    "a step": (["--step", "12"], [LATE]),
    "long ones": (["--min-tokens", "4"], [GAUGE_1]),
    "several conditions": (["--step", "1", "--outcome", "unsolved", "--min-tokens", "4", "--task", "*"], [GAUGE_1]),
    "none": (["--step", "12", "--outcome", "solved"], []),
}


@pytest.mark.parametrize(("options", "ids"), SELECTIONS.values(), ids=SELECTIONS)
def test_attempts_are_listed_by_what_is_asked_for(
    make_run: MakeRun, sweyard: Sweyard, options: list[str], ids: list[str]
) -> None:
    result = sweyard("rollouts", "list", make_run(attempts=STEPS), *options, "-o", "name")
    assert (result.exit_code, result.stdout.split()) == (0, ids)


NOTHING: dict[str, tuple[list[str], str]] = {
    "an outcome": (
        ["--outcome", "truncated"],
        "5 attempts; outcomes: solved (2), unsolved (1), max_turns (1), env_infra (1)",
    ),
    "an outcome of a step": (["--step", "12", "--outcome", "solved"], "1 attempt of step 12; outcomes: env_infra (1)"),
    "a reward": (["--reward", ">1"], "5 attempts; rewards: 0 to 1"),
    "a task": (["--task", "mine-*"], "5 attempts; tasks: gauge-1, h1, other-2"),
    "long ones": (["--step", "1", "--min-tokens", "901"], "3 attempts of step 1; sampled tokens: 3 to 900"),
    "two": (["--task", "h1", "--reward", "0", "--step", "12"], "1 attempt of step 12; rewards: 0; tasks: other-2"),
}


@pytest.mark.parametrize(("options", "there_is"), NOTHING.values(), ids=NOTHING)
def test_who_finds_nothing_is_told_what_there_is(
    make_run: MakeRun, sweyard: Sweyard, options: list[str], there_is: str
) -> None:
    result = sweyard("rollouts", "list", make_run(attempts=STEPS), *options)
    assert (result.exit_code, result.stdout) == (0, f"no such attempts among the {there_is}\n")


def test_a_step_without_attempts_is_told_as_such(make_run: MakeRun, sweyard: Sweyard) -> None:
    result = sweyard("rollouts", "list", make_run(attempts={"step-000001": []}), "--step", "1", "--task", "t")
    assert result.stdout == "no attempts of step 1 have ended yet\n"


def test_attempts_under_way_are_listed_and_shown_too(make_run: MakeRun, sweyard: Sweyard) -> None:
    run = make_run(attempts=STEPS)
    journal = Journal(run / "rollouts" / "under-way")
    for name in "ab":
        journal.write(Trajectory(f"13/{name}/0", name, f"13/{name}", (), Outcome.TRUNCATED, 0.0, patch="half"))
    journal.close()
    file = run / "rollouts" / "under-way.arrows"
    file.write_bytes(file.read_bytes()[:-10])  # as it is while the last one is written
    assert sweyard("rollouts", "list", run, "-o", "name").stdout.split()[-2:] == [LATE, "13/a/0"]
    assert "--- patch ---\nhalf" in sweyard("rollouts", "show", run, "13/a/0").stdout


def test_the_list_is_a_table_or_json(make_run: MakeRun, sweyard: Sweyard) -> None:
    run = make_run(attempts=STEPS)
    header, first, *_ = sweyard("rollouts", "list", run, "--step", "1").stdout.splitlines()
    assert header.split() == ["attempt", "outcome", "reward", "turns", "sampled", "tokens"]
    assert first.split() == [GAUGE_0, "solved", "1", "1", "3", "5"]
    assert json.loads(sweyard("rollouts", "list", run, "--step", "12", "-o", "json").stdout) == [
        {"attempt_id": LATE, "outcome": "env_infra", "reward": 0.0}
        | {"num_turns": 1, "num_sampled_tokens": 3, "num_tokens": 5}
    ]


def test_no_word_of_a_file_commands_the_terminal(make_run: MakeRun, sweyard: Sweyard) -> None:
    run = make_run(attempts={"step-000001": [attempt("t\x1b[2J", "solved\x1b]0;x\x07")]})
    listed = sweyard("rollouts", "list", run).stdout
    assert ("\x1b" in listed, "t␛[2J" in listed, "solved␛]0;x␇" in listed) == (False, True, True)


def test_an_attempt_is_shown_turn_by_turn_with_nothing_hidden(make_run: MakeRun, sweyard: Sweyard) -> None:
    transcript = [
        {"role": "system", "content": "you repair"},
        {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": "ls\x1b[2J"},
        {"role": "user", "content": "setup.py"},
        {"role": "assistant", "content": "\ud83d"},
    ]
    row = attempt("t", label="1", transcript=transcript, patch="+fixed\n", infra_reason="")
    result = sweyard("rollouts", "show", make_run(attempts={"step-000001": [row]}), "1/t/0")
    assert result.exit_code == 0
    text = result.stdout
    places = [
        text.index(part)
        for part in (
            "attempt 1/t/0", "reward 1, the data set's own verdict: solved, 2 turns, 3 of 5 tokens sampled",
            "total 1.5 s",
            "--- system ---\nyou repair", "--- user ---\nfix it", "--- turn 1: model ---\nls\u241b[2J",
            "--- user ---\nsetup.py", "--- turn 2: model ---\n<U+D83D>", "--- patch ---\n+fixed",
            "--- grading ---\ntest_one passed",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    assert "--- infrastructure ---" not in text
    assert "segment" not in text


def test_tokens_are_shown_with_mask_logprob_and_version(make_run: MakeRun, sweyard: Sweyard) -> None:
    lines = sweyard("rollouts", "show", make_run(attempts=STEPS), GAUGE_0, "--tokens").stdout.splitlines()
    assert lines[-7] == "--- segment 1 of 1 ---"
    assert [line.split() for line in lines[-6:]] == [
        ["position", "token", "sampled", "logprob", "version"],
        ["0", "11", "-", "-", "-"],
        ["1", "12", "-", "-", "-"],
        ["2", "13", "yes", "-0.500000", "7"],
        ["3", "14", "yes", "-1.500000", "7"],
        ["4", "15", "yes", "-2.500000", "7"],
    ]
    assert len({len(line) for line in lines[-6:]}) == 1


def test_attempts_are_exported_as_chats(make_run: MakeRun, sweyard: Sweyard, tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    silent = attempt("t", "solved", label="2", transcript=[])
    run = make_run(attempts={**STEPS, "step-000002": [silent]})
    command = ("rollouts", "export", run, file, "--outcome", "solved", "--held-out")
    assert sweyard(*command).stdout == f"{file}: 2 attempts\n"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows[1] == {
        "messages": [{"role": "user", "content": "fix it"}, {"role": "assistant", "content": "as solved"}],
        "attempt_id": GAUGE_0, "task_id": "gauge-1", "outcome": "solved", "reward": 1.0,
    }  # fmt: skip


def test_what_is_exported_to_be_learned_from_holds_no_attempt_at_a_held_out_task(
    make_run: MakeRun, sweyard: Sweyard, tmp_path: Path
) -> None:
    file = tmp_path / "chats.jsonl"
    told = sweyard("rollouts", "export", make_run(attempts=STEPS), file).stdout
    exported = [json.loads(line)["attempt_id"] for line in file.read_text().splitlines()]
    assert exported == [GAUGE_0, GAUGE_1, OTHER, LATE]
    assert told == f"{file}: 4 attempts of training steps\n"


def test_where_all_attempts_are_of_evaluations_an_export_says_how_to_have_them(
    make_run: MakeRun, sweyard: Sweyard, tmp_path: Path
) -> None:
    file = tmp_path / "chats.jsonl"
    run = make_run(attempts={"eval-final-held": STEPS["eval-final-held"]})
    told = sweyard("rollouts", "export", run, file).stdout
    assert told == f"{file}: 0 attempts of training steps; with --held-out those of evaluations, too\n"


@pytest.mark.parametrize("asked", [["metrics"], ["", "--step", "7"]], ids=["no run", "no such step"])
def test_an_export_that_is_refused_leaves_the_file_that_is_there(
    make_run: MakeRun, sweyard: Sweyard, tmp_path: Path, asked: list[str]
) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text("an earlier export\n")
    run = make_run(attempts=STEPS)
    assert sweyard("rollouts", "export", run / asked[0], file, *asked[1:]).exit_code == 2
    assert file.read_text() == "an earlier export\n"


REFUSED: dict[str, tuple[list[str], str]] = {
    "an outcome that is none": (["list", "RUN", "--outcome", "sovled"], "--outcome sovled: there is none of this name"),
    "a reward that is no number": (["list", "RUN", "--reward", "high"], "--reward high: give a number"),
    "a step that was not": (
        ["list", "RUN", "--step", "7"],
        "holds no step 7, or it has not ended; it has steps from 1 to 12",
    ),
    "an attempt of no file": (["show", "RUN", "9/t/0"], "holds no attempt 9/t/0"),
    "an attempt that was not": (["show", "RUN", "1/t/0"], "holds no attempt 1/t/0"),
    "no run": (["list", "RUN/metrics"], "holds no rollouts: give the directory of a run"),
    "a step to replay that was not": (["replay", "RUN", "--step", "7"], "has no model/"),
}


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_told_in_a_sentence(
    make_run: MakeRun, sweyard: Sweyard, arguments: list[str], sentence: str
) -> None:
    run = str(make_run(attempts=STEPS))
    result = sweyard("rollouts", *(argument.replace("RUN", run) for argument in arguments))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


TOLD: dict[str, tuple[Replayed, list[str], bool]] = {
    "the same": (
        Replayed(2, {"loss": 0.5}, {}, True),
        [
            "step 3 trained again from the checkpoint of step 2",
            "  loss 0.5",
            "figures: the same, bit for bit",
            "weights: the same, bit for bit",
        ],
        True,
    ),
    "not the same": (
        Replayed(0, {"loss": 0.5}, {"loss": (0.25, 0.5)}, False),
        [
            "step 3 trained again from the state before step 1",
            "  loss 0.5",
            "figures: not the same: loss 0.25 then, 0.5 now",
            "weights: not the same",
        ],
        False,
    ),
    "nothing to compare with": (
        Replayed(2, {}, None, None),
        [
            "step 3 trained again from the checkpoint of step 2",
            "figures: the run has none of this step to compare with",
            "weights: the run has kept none from after this step to compare with",
        ],
        True,
    ),
}


@pytest.mark.parametrize(("replayed", "lines", "is_same"), TOLD.values(), ids=TOLD)
def test_a_replay_says_what_is_the_same(replayed: Replayed, lines: list[str], is_same: bool) -> None:
    assert list(replay_lines(3, replayed)) == lines
    assert replayed.is_same is is_same


def test_reading_rollouts_and_the_report_load_no_pytorch(make_run: MakeRun) -> None:
    run = make_run(attempts=STEPS)
    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from sweyard_cli.main import app\n"
        "for arguments in (['rollouts', 'list'], ['rollouts', 'show'], ['report']):\n"
        f"    extra = ['{GAUGE_0}', '--tokens'] if 'show' in arguments else []\n"
        "    result = CliRunner().invoke(app, [*arguments, sys.argv[1], *extra])\n"
        "    assert result.exit_code == 0, result.output\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(run)], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "sweyard_trainer.rollouts.reading" in loaded
    assert not loaded & {"torch", "ray", "transformers", "vllm"}
