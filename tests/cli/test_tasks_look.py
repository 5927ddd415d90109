"""sweyard tasks list, show, stats and check: data sets as people look at them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.program import call

Sweyard = Callable[..., Any]


def row_of(number: int, **changes: Any) -> dict[str, Any]:
    row = {
        "question_id": f"q{number}",
        "subset": "Docs" if number % 2 else "Leet",
        "question": "Double it.\x1b[31m",
        "solution": "def double(x):\n    return 2 * x\n",
        "test": "from solution import double\n\ndef test_double():\n    assert double(2) == 4\n",
        "gpt_difficulty": "easy" if number < 2 else "hard",
    }
    return row | changes


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    rows = [*(row_of(number) for number in range(4)), row_of(4, test="def (")]
    (tmp_path / "kod.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "image").mkdir()
    return tmp_path / "kod.jsonl"


def image(dataset: Path) -> list[str]:
    return ["--image", f"dir:{dataset.parent / 'image'}"]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], ["q0", "q1", "q2", "q3"]),
        (["--difficulty", "hard"], ["q2", "q3"]),
        (["--repository", "Docs"], ["q1", "q3"]),
        (["--limit", "1"], ["q0"]),
    ],
)
def test_tasks_are_listed_and_other_rows_are_told(
    dataset: Path, sweyard: Sweyard, options: list[str], ids: list[str]
) -> None:
    result = sweyard("tasks", "list", dataset, *image(dataset), *options, "-o", "name")

    assert (result.exit_code, result.stdout.split()) == (0, ids)
    assert "left out: row 4 (q4): the tests are no Python" in result.stderr


def test_table_and_json_say_the_same(dataset: Path, sweyard: Sweyard) -> None:
    table = sweyard("tasks", "list", dataset, *image(dataset)).stdout.splitlines()
    rows = json.loads(sweyard("tasks", "list", dataset, *image(dataset), "-o", "json").stdout)

    assert table[0].split() == ["task", "repository", "difficulty", "failing", "passing", "image"]
    assert [line.split() for line in table[1:]] == [[str(value) for value in row.values()] for row in rows]


def test_hidden_part_is_shown_only_on_demand(dataset: Path, sweyard: Sweyard) -> None:
    seen = sweyard("tasks", "show", dataset, "q1", *image(dataset)).stdout
    told = sweyard("tasks", "show", dataset, "q1", *image(dataset), "--hidden").stdout

    assert "Double it.\u241b[31m" in seen
    assert "return 2 * x" not in seen
    assert "test_solution.py::test_double" not in seen
    assert "+    return 2 * x" in told
    assert "  test_solution.py::test_double" in told


def test_figures_add_up(dataset: Path, sweyard: Sweyard) -> None:
    figures = json.loads(sweyard("tasks", "stats", dataset, *image(dataset), "-o", "json").stdout)

    assert (figures["tasks"], figures["left_out"], figures["images"]) == (4, 1, 1)
    assert figures["by"] == {
        "grader": {"sweyard": 4},
        "repository": {"Leet": 2, "Docs": 2},
        "difficulty": {"easy": 2, "hard": 2},
    }
    assert "  2  Docs" in sweyard("tasks", "stats", dataset, *image(dataset)).stdout


WRONG = {
    "no such task": (["show", "{}", "q9", "--image", "i"], "has no task 'q9'"),
    "unknown schema": (["list", "{}", "--format", "swebench"], "--format: Input should be 'auto'"),
    "no row is a task": (["stats", "{}"], "5 rows are no tasks, the first because: row 0 (q0): KodCode names no image"),
    "an image without a pool": (["check", "{}", "--image", "python:3"], "name a RolloutPool with --pool"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_mistakes_are_told_in_a_sentence(dataset: Path, sweyard: Sweyard, arguments: list[str], words: str) -> None:
    result = sweyard("tasks", *(argument.format(dataset) for argument in arguments))

    assert result.exit_code == 2
    assert words in result.stderr


def test_a_check_that_finds_nothing_says_what_comes_next(dataset: Path, sweyard: Sweyard) -> None:
    dataset.write_text(f"{json.dumps(row_of(0))}\n")
    told = sweyard("tasks", "check", dataset, *image(dataset)).stdout.splitlines()
    assert told[-2:] == [
        "1 of 1 tasks may be used",
        f"next    {call('run', '-f', 'FILE')}   # with tasks.train.dataset: {dataset} in FILE",
    ]


def test_check_reports_each_task(dataset: Path, sweyard: Sweyard, tmp_path: Path) -> None:
    wrong = row_of(5, solution="def double(x):\n    return x\n")
    dataset.write_text(f"{json.dumps(row_of(0))}\n{json.dumps(wrong)}\n")

    result = sweyard("tasks", "check", dataset, *image(dataset), "--report", tmp_path / "report.jsonl")

    assert (result.exit_code, result.stdout.splitlines()[-1]) == (1, "1 of 2 tasks may be used")
    good, bad = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
    assert good == {"id": "q0", "usable": True, "reason": ""}
    assert (bad["id"], bad["usable"]) == ("q5", False)
    assert "the gold patch does not solve it" in bad["reason"]
