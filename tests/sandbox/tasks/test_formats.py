"""Rows of data sets that need something built: evaluation scripts, stubs, tests' names. And what is no task."""

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from sweyard_api.workload import TaskSource
from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.diff import file_patch, unified_diff
from sweyard_sandbox.tasks.formats import ADAPTERS, detect_format
from sweyard_sandbox.tasks.formats.eval_script import directives
from sweyard_sandbox.tasks.load import load_tasks

TEST_PATCH = (
    "diff --git a/tests/a/test_x.py b/tests/a/test_x.py\n"
    + unified_diff("tests/a/test_x.py", "a\n", "b\n")
    + file_patch("tests/new_test.py", "", "x\n")
    + file_patch("tests/data.json", "", "{}\n")
)
SWE_BENCH = {
    "instance_id": "django__django-1",
    "repo": "django/django",
    "base_commit": "c0ffee",
    "version": "4.2",
    "problem_statement": "It is wrong.",
    "patch": "diff",
    "test_patch": TEST_PATCH,
    "FAIL_TO_PASS": '["a (t.T)"]',
    "PASS_TO_PASS": "[]",
    "difficulty": "<15 min fix",
}
SWE_GYM = SWE_BENCH | {"instance_id": "getmoto__moto-7365", "repo": "getmoto/moto", "FAIL_TO_PASS": ["t.py::a"]}
SWE_REBENCH = SWE_GYM | {
    "repo": "owner/thing",
    "image_name": "registry/thing:1",
    "install_config": {"test_cmd": "pytest -rA", "log_parser": "parse_log_pytest"},
}
KODCODE = {
    "question_id": "Docs_1_I",
    "subset": "Docs",
    "question": "Return the running maximum.",
    "solution": "def running_max(values):\n    return values",
    "test_code": "import solution\ndef test_one(): ...\nclass TestMore:\n    def test_two(self): ...\n",
    "test_info": [{"function_declaration": "def running_max(values):", "docstring": 'Says """so""" \\d.'}],
    "gpt_difficulty": "easy",
    "image": "python-pytest:1",
}
MULTI_SWE = {
    "org": "cli",
    "repo": "Cli",
    "number": 10,
    "base": {"label": "cli:trunk", "ref": "trunk", "sha": "c0ffee"},
    "resolved_issues": [{"number": 9, "title": "It is wrong.", "body": "Very."}],
    "fix_patch": "diff",
    "test_patch": "diff --git a/x_test.go b/x_test.go\n" + unified_diff("x_test.go", "a\n", "b\n"),
    "fixed_tests": {"TestNew/sub": {"run": "NONE", "test": "FAIL", "fix": "PASS"}},
    "p2p_tests": {"TestOld": {"run": "PASS", "test": "PASS", "fix": "PASS"}},
}
ROWS = {
    "swe-bench": SWE_BENCH,
    "swe-gym": SWE_GYM,
    "swe-rebench": SWE_REBENCH,
    "multi-swe": MULTI_SWE,
    "kodcode": KODCODE,
}


@pytest.mark.parametrize("kind", ROWS)
def test_row_is_known(kind: str) -> None:
    assert detect_format(ROWS[kind], 0) == kind


@pytest.mark.parametrize(
    ("row", "image", "command", "parser", "place"),
    [
        (
            SWE_BENCH,
            "swebench/sweb.eval.x86_64.django_1776_django-1:latest",
            "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 a.test_x new_test",
            "parse_log_django",
            "/testbed",
        ),
        (
            SWE_BENCH | {"version": "1.9"},
            "swebench/sweb.eval.x86_64.django_1776_django-1:latest",
            "./tests/runtests.py --verbosity 2 a.test_x new_test",
            "parse_log_django",
            "/testbed",
        ),
        (
            SWE_GYM,
            "xingyaoww/sweb.eval.x86_64.getmoto_s_moto-7365:latest",
            "pytest -n0 -rA tests/a/test_x.py tests/new_test.py",
            "parse_log_pytest",
            "/testbed",
        ),
        (
            SWE_REBENCH,
            "registry/thing:1",
            "pytest -rA",
            "parse_log_pytest",
            "/thing",
        ),
        (
            SWE_REBENCH | {"docker_image": "v1:1", "install_config": json.dumps(SWE_REBENCH["install_config"])},
            "v1:1",
            "pytest -rA tests/a/test_x.py tests/new_test.py",
            "parse_log_pytest",
            "/testbed",
        ),
    ],
    ids=["swe-bench", "django 1.9", "swe-gym", "swe-rebench 2", "swe-rebench 1"],
)
def test_row_without_a_script_gets_one(row: dict[str, Any], image: str, command: str, parser: str, place: str) -> None:
    task = ADAPTERS[detect_format(row, 0)](dict(row), 0)
    script = task.grading["row"]["eval_script"].split("\n")

    assert (task.image, task.working_directory, task.grader) == (image, place, "swe-bench")
    assert task.grading["row"]["log_parser"] == parser
    first, last = (script.index(f": '>>>>> {which} Test Output'") for which in ("Start", "End"))
    assert script[first + 1 : last] == [command]
    restoring = "git checkout c0ffee -- tests/a/test_x.py"
    assert script.index(restoring) < first < last < len(script) - 1 - script[::-1].index(restoring)
    assert set(TEST_PATCH.rstrip("\n").split("\n")) <= set(script)


def test_row_of_an_unknown_repository_is_a_task_without_a_script() -> None:
    task = ADAPTERS["swe-bench"](SWE_BENCH | {"repo": "till/till"}, 0)

    assert "eval_script" not in task.grading["row"]
    assert task.tags == ("difficulty:<15 min fix",)


def test_mypy_is_told_cases() -> None:
    patch = "@@ -1 +1,4 @@\n [case testOld]\n+[case testNew]\n+x: int  # E: [misc]\n+[case testOld]\n"

    assert directives("python/mypy", patch) == "'testOld or testNew'"


def test_multi_swe_row_of_go_is_one_of_swe_bench_and_its_image_hides_the_solution() -> None:
    task = ADAPTERS["multi-swe"](dict(MULTI_SWE), 0)

    assert (task.id, task.repository, task.image) == ("cli__Cli-10", "cli/Cli", "mswebench/cli_m_cli:pr-10")
    assert (task.fail_to_pass, task.pass_to_pass) == (("TestNew/sub",), ("TestOld",))
    assert (task.working_directory, task.problem_statement) == ("/home/Cli", "It is wrong.\n\nVery.")
    assert task.grading["row"]["log_parser"] == "parse_log_gotest"
    assert "\nbash /home/run.sh x_test.go\n" in task.grading["row"]["eval_script"]
    assert task.grading["hidden_files"] == ["/home/fix.patch", "/home/test.patch"]


def test_kodcode_gives_a_stub_and_hidden_tests() -> None:
    task = ADAPTERS["kodcode"](dict(KODCODE), 0)

    assert task.fail_to_pass == ("test_solution.py::test_one", "test_solution.py::TestMore::test_two")
    assert "return values" not in task.setup_patch
    assert "+return values" in task.gold_patch.replace("    ", "")
    assert task.grading["hidden_tests"] == {"test_solution.py": KODCODE["test_code"]}
    added = "\n".join(line[1:] for line in task.setup_patch.split("\n")[5:] if line.startswith("+"))
    compile(added, "solution.py", "exec")


WRONG = {
    "no image": (KODCODE | {"image": None}, "set `image` in the task source"),
    "parametrized": (
        KODCODE | {"test_code": "import pytest\n@pytest.mark.parametrize('a', [1])\ndef test_a(a): ...\n"},
        "only at run time",
    ),
    "no tests": (KODCODE | {"test_code": "assert True"}, "no test function"),
    "no Python": (KODCODE | {"test_code": "def ("}, "no Python"),
    "no command": (SWE_REBENCH | {"install_config": {"log_parser": "parse_log_pytest"}}, "test_cmd must be a command"),
    "no config": (SWE_REBENCH | {"install_config": "{"}, "'install_config' is no JSON"),
    "parser": (
        SWE_REBENCH | {"install_config": {"test_cmd": "x", "log_parser": "parse_log_elixir"}},
        "'parse_log_elixir' is none of swebench's",
    ),
    "no test patch": (SWE_GYM | {"test_patch": ""}, "'test_patch' must be"),
    "Multi-SWE of Java": (
        MULTI_SWE | {"test_patch": unified_diff("src/XTest.java", "a\n", "b\n")},
        r"its tests are in \.java, not in \.go or \.rs",
    ),
    "Multi-SWE without fixed tests": (MULTI_SWE | {"fixed_tests": {}}, "'fixed_tests' must be"),
    "Multi-SWE without a commit": (MULTI_SWE | {"base": None}, "'base_commit' must be"),
}


@pytest.mark.parametrize(("row", "words"), WRONG.values(), ids=WRONG)
def test_wrong_row_is_told(row: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskFormatError, match=words):
        ADAPTERS[detect_format(row, 0)](dict(row), 0)


def harbor_folder(root: Path, name: str, toml: str = '[environment]\ndocker_image = "hello:1"\n') -> Path:
    for path, text in {
        "task.toml": toml,
        "instruction.md": "Write hello.",
        "environment/Dockerfile": "FROM x\nWORKDIR /first\nworkdir /app\n",
        "tests/test.sh": "#!/bin/bash\necho 1 >/logs/verifier/reward.txt\n",
        "solution/solve.sh": "echo hello >/app/hello\n",
    }.items():
        (root / name / path).parent.mkdir(parents=True, exist_ok=True)
        (root / name / path).write_text(text)
    return root / name


def test_folder_of_harbor_tasks_gives_tasks_and_tells_of_the_rest(tmp_path: Path) -> None:
    harbor_folder(tmp_path, "good", '[task]\nname = "org/good"\n[environment]\ndocker_image = "a:1"\nworkdir = "/w"\n')
    harbor_folder(tmp_path, "default", '[metadata]\ndifficulty = "easy"\n[verifier.env]\nA = 1\n')
    harbor_folder(tmp_path, "broken", "[")
    (harbor_folder(tmp_path, "testless") / "tests" / "test.sh").unlink()
    said: list[str] = []

    tasks = load_tasks(TaskSource(dataset=str(tmp_path), image="mine:1"), [], said.append)

    assert [(task.id, task.image, task.working_directory) for task in tasks] == [
        ("default", "mine:1", "/app"),
        ("org/good", "a:1", "/w"),
    ]
    assert tasks[0].grading["environment"] == {"A": "1"}
    assert base64.b64decode(tasks[0].grading["tests"]["test.sh"]).startswith(b"#!/bin/bash")
    assert [words in sentence for words, sentence in zip(("no TOML", "no tests/test.sh"), said, strict=True)] == [
        True
    ] * 2


def test_folder_as_a_hub_keeps_it_is_read_by_split_and_difficulty(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        rows = [KODCODE | {"question_id": f"{split}-{level}", "gpt_difficulty": level} for level in ("easy", "hard")]
        table = pyarrow.Table.from_pylist(rows)
        parquet.write_table(table, tmp_path / "data" / f"{split}-00000-of-00001.parquet")

    source = TaskSource(dataset=str(tmp_path), split="test", difficulties=["hard"])

    assert [task.id for task in load_tasks(source, [])] == ["test-hard"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=4,
)
FIELDS = sorted({name for row in ROWS.values() for name in row} | {"harbor_name", "task_toml", "tests", "solution"})


@given(kind=st.sampled_from(sorted(ADAPTERS)), data=st.data())
def test_any_row_is_a_task_or_told(kind: str, data: st.DataObject) -> None:
    """A row of which some fields hold anything else never ends a load."""
    row: dict[str, Any] = dict(ROWS.get(kind, {}))
    row |= data.draw(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
    with suppress(TaskFormatError):
        assert ADAPTERS[kind](row, 0).id
