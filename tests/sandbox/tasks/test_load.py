"""Tasks by name, path and selection; foreign rows; data sets as ConfigMaps."""

import base64
import gzip
import json
import logging
import random
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from sweyard_api.workload import TaskSource
from sweyard_sandbox.tasks.config_map import DatasetTooLargeError, to_config_map
from sweyard_sandbox.tasks.load import DatasetError, adapt_rows, load_tasks
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tasks.tasks_file import TASKS_FILE, compressed


def task_of(number: int, **changes: Any) -> Task:
    fields = {
        "id": f"t{number}",
        "repository": "even" if number % 2 == 0 else "odd",
        "image": f"dir:trees/{number % 2}",
        "working_directory": "/testbed",
        "problem_statement": "It is wrong.",
        "gold_patch": "",
        "fail_to_pass": ("a::b",),
        "tags": ("split:train" if number < 6 else "split:heldout",),
    }
    return Task.model_validate(fields | changes)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / TASKS_FILE).write_bytes(compressed([task_of(number) for number in range(10)]))
    return tmp_path


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, "0123456789"),
        ({"split": "heldout"}, "6789"),
        ({"repositories": ["odd"]}, "13579"),
        ({"ids": ["t7", "t2"]}, "27"),
        ({"limit": 3}, "012"),
        ({"split": "train", "repositories": ["even"], "limit": 2}, "02"),
    ],
)
def test_selection(base: Path, selection: dict[str, Any], expected: str) -> None:
    tasks = load_tasks(TaskSource(dataset="demo", **selection), [base / "nowhere", base])

    assert [task.id for task in tasks] == [f"t{letter}" for letter in expected]


def test_a_parquet_file_gives_the_same_tasks(tmp_path: Path) -> None:
    tasks = [task_of(0, pass_to_pass=("a::c",), grading={"command": "a"}), task_of(1, grading={"parser": "b"})]
    rows = [task.model_dump(mode="json", exclude_unset=True) for task in tasks]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    loaded = load_tasks(TaskSource(dataset=str(tmp_path / "train.parquet")), [])
    assert [task.model_copy(update={"image": task_of(number).image}) for number, task in enumerate(loaded)] == tasks


def test_seed_shuffles_before_the_limit(base: Path) -> None:
    one, again, other = (
        [task.id for task in load_tasks(TaskSource(dataset="demo", seed=seed, limit=5), [base])] for seed in (1, 1, 2)
    )

    assert one == again != other


def test_trees_are_found_wherever_the_data_set_lies(base: Path) -> None:
    by_name = load_tasks(TaskSource(dataset="demo"), [base])
    by_path = load_tasks(TaskSource(dataset=str(base / "demo")), [])

    assert by_name == by_path
    assert by_name[1].image == f"dir:{(base / 'demo').resolve()}/trees/1"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            {"dataset": "absent"},
            "dataset 'absent' is not in .*; make it of .*sweyard tasks make --name absent --repo DIR",
        ),
        ({"dataset": "tiny"}, "`make demo` makes it"),
        ({"dataset": "./absent"}, "no such file"),
        ({"dataset": "demo", "ids": ["t99"]}, "no such id: t99"),
        ({"dataset": "demo", "repositories": ["x"]}, "leaves none"),
        ({"dataset": "demo", "split": "tarin"}, "no split 'tarin'; there are heldout, train"),
    ],
)
def test_wrong_source_says_what_to_do(base: Path, source: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DatasetError, match=sentence):
        load_tasks(TaskSource(**source), [base])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "'.*rows.jsonl': it holds none$"),
        (
            '{"a": 1}\n{"b": 2}\n',
            r"it holds none; 2 rows are no tasks, the first because: row 0: the fields \['a'\] fit no known format",
        ),
    ],
    ids=["no rows", "no row is a task"],
)
def test_a_data_set_without_a_task_says_why(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "rows.jsonl").write_text(content)
    with pytest.raises(DatasetError, match=sentence):
        load_tasks(TaskSource(dataset=str(tmp_path / "rows.jsonl")), [], lambda reason: None)


def test_tasks_to_practise_on_alone_are_no_data_set(base: Path, tmp_path: Path) -> None:
    made = load_tasks(TaskSource(dataset="demo"), [base])
    rows = [task.model_copy(update={"tags": ("split:practice",)}).model_dump_json() for task in made]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    with pytest.raises(DatasetError, match="only tasks to practise on, which nothing can grade"):
        load_tasks(TaskSource(dataset=str(tmp_path / "rows.jsonl")), [])


def test_an_absent_data_set_is_said_to_be_where_it_was_looked_for_and_not_where_only_pods_look(base: Path) -> None:
    """A folder that the user named is told whether or not it is there."""
    with pytest.raises(DatasetError, match=f"'absent' is not in {base / 'typo'} or {base}; "):
        load_tasks(TaskSource(dataset="absent"), [base / "typo", Path("/datasets"), base])


def test_an_unreachable_hub_is_one_sentence(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    import datasets

    def unreachable(name: str, *, split: str) -> None:
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s")
        raise ConnectionError(f"Couldn't reach {name!r} on the Hub\nmore words")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(DatasetError, match=r"'owner/name' cannot be had.*HF_ENDPOINT.*local file") as caught:
        load_tasks(TaskSource(dataset="owner/name"), [])
    assert "\n" not in str(caught.value)
    assert not caplog.records


def test_half_a_file_of_a_hub_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def torn(name: str, *, split: str) -> None:
        raise EOFError("Compressed file ended before the end-of-stream marker was reached")

    monkeypatch.setattr(datasets, "load_dataset", torn)
    with pytest.raises(DatasetError, match=r"'owner/name' cannot be had.*end-of-stream"):
        load_tasks(TaskSource(dataset="owner/name"), [])


DAMAGED = {
    "no Parquet": ("rows.parquet", b"hello", "rows.parquet cannot be read"),
    "no gzip": ("rows.gz", b"hello", "rows.gz is damaged"),
    "half a gzip": ("rows.gz", gzip.compress(random.Random(0).randbytes(9_000))[:4_000], "rows.gz is damaged"),
    "spoilt gzip": ("rows.gz", gzip.compress(b"{}")[:10] + b"\xff" * 20, "rows.gz is damaged"),
    "no row at all": (
        "rows.jsonl",
        b"hello\n",
        "it holds none; 1 row is no task, because: .*rows.jsonl, line 1 is no JSON",
    ),
}


@pytest.mark.parametrize(("name", "content", "sentence"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetError, match=sentence):
        load_tasks(TaskSource(dataset=str(tmp_path / name)), [])


WRONG_LINES = {
    "no JSON": (b"root:x:0", "rows.jsonl, line 2 is no JSON"),
    "half a line": (b'{"id": "t9", "repo', "rows.jsonl, line 2 is no JSON"),
    "a list": (b"[1]", "rows.jsonl, line 2 is no JSON object"),
    "bytes of no text": (b"\xff\xfe\x00", "rows.jsonl, line 2 is no JSON"),
    "lists without end": (b"[" * 100_000, "rows.jsonl, line 2 is no JSON"),
    "no task": (b'{"id": "a"}', "row 1: the fields ['id'] fit no known format"),
    "half a character": (
        task_of(9).model_dump_json().replace("wrong.", "\\ud83d").encode(),
        "row 1 (t9): problem_statement has half a character",
    ),
    "the same id again": (task_of(0).model_dump_json().encode(), "row 1 (t0): an earlier row has this id"),
}


@pytest.mark.parametrize(("line", "sentence"), WRONG_LINES.values(), ids=WRONG_LINES)
def test_a_wrong_line_is_told_and_the_rest_go_on(tmp_path: Path, line: bytes, sentence: str) -> None:
    first, last = (task_of(number).model_dump_json().encode() for number in (0, 1))
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join([first, line, last]))
    said: list[str] = []

    tasks = load_tasks(TaskSource(dataset=str(tmp_path / "rows.jsonl")), [], said.append)

    assert [task.id for task in tasks] == ["t0", "t1"]
    [told] = said
    assert sentence in told


def table_of(path: Path, *, rows_a_group: int, statements: list[bytes] | None = None) -> None:
    """Six tasks; `statements` as they are, though no Parquet text may hold what is no UTF-8."""
    rows = [task_of(number).model_dump(mode="json", exclude_unset=True) for number in range(6)]
    table = pyarrow.Table.from_pylist(rows)
    if statements is not None:
        texts = pyarrow.array(statements, pyarrow.binary()).view(pyarrow.string())
        table = table.set_column(table.column_names.index("problem_statement"), "problem_statement", texts)
    parquet.write_table(table, path, row_group_size=rows_a_group, compression="snappy")


def test_a_row_of_a_table_whose_text_is_no_utf8_is_told_and_the_rest_go_on(tmp_path: Path) -> None:
    table_of(tmp_path / "rows.parquet", rows_a_group=6, statements=[*[b"x"] * 4, b"\xff", b"x"])
    said: list[str] = []

    tasks = load_tasks(TaskSource(dataset=str(tmp_path / "rows.parquet")), [], said.append)

    assert [task.id for task in tasks] == ["t0", "t1", "t2", "t3", "t5"]
    [told] = said
    assert "rows.parquet, row 4 has a text that is no UTF-8" in told


def test_a_damaged_part_of_a_table_is_told_and_the_rest_go_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table_of(path, rows_a_group=2)
    column = parquet.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    said: list[str] = []

    tasks = load_tasks(TaskSource(dataset=str(path)), [], said.append)

    assert [task.id for task in tasks] == ["t0", "t1", "t4", "t5"]
    [told] = said
    assert "rows.parquet, rows 2 to 3 cannot be read" in told


SWE_BENCH = {
    "instance_id": "astropy__astropy-12907",
    "repo": "astropy/astropy",
    "problem_statement": "p",
    "patch": "d",
    "FAIL_TO_PASS": '["t::a"]',
    "PASS_TO_PASS": ["t::b"],
}
R2E = {
    "docker_image": "namanjain12/orange3_final:abc",
    "repo_name": "orange3",
    "problem_statement": "p",
    "expected_output_json": '{"A.b": "PASSED", "A.c": "FAILED"}',
}


def test_bad_rows_are_told_and_the_rest_go_on() -> None:
    said: list[str] = []
    rows: list[dict[str, Any]] = [
        SWE_BENCH,
        SWE_BENCH | {"FAIL_TO_PASS": "t::a"},
        SWE_BENCH | {"patch": None},
        R2E,
        R2E | {"expected_output_json": "{"},
        {"what": 1},
        task_of(1).model_dump(),
        task_of(1).model_dump() | {"extra": 1},
        SWE_BENCH | {"repo": ["astropy/astropy"]},
        SWE_BENCH | {"PASS_TO_PASS": "[" * 100_000},
        R2E | {"execution_result_content": '{"test_file_names": 5}'},
        {"harbor_name": "h", "task_toml": "environment.docker_image = 'i'", "tests": 5},
    ]

    tasks = list(adapt_rows(rows, "auto", said.append))

    assert [task.grader for task in tasks] == ["swe-bench", "r2e-gym", "sweyard"]
    assert tasks[0].image == "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest"
    assert (tasks[0].fail_to_pass, tasks[0].pass_to_pass) == (("t::a",), ("t::b",))
    assert tasks[1].fail_to_pass == ("A.b",)
    assert [part for sentence, part in zip(said, PARTS, strict=True) if part not in sentence] == []


PARTS = ["'FAIL_TO_PASS'", "'patch'", "'expected_output_json'", "fit no known format", "'extra'"]
PARTS += ["'repo'", "'PASS_TO_PASS'", "must be lists", "there is no tests/test.sh"]


def test_config_map_holds_the_tasks_with_their_images() -> None:
    tasks = [task_of(number) for number in range(4)]

    manifest = to_config_map("demo", tasks, {"even": "registry:5000/even:1", "odd": "registry:5000/odd:1"})

    data = gzip.decompress(base64.b64decode(manifest["binaryData"][TASKS_FILE]))
    assert [json.loads(line)["image"] for line in data.splitlines()] == [
        f"registry:5000/{name}:1" for name in ("even", "odd", "even", "odd")
    ]


def test_repository_without_an_image_is_refused() -> None:
    with pytest.raises(ValueError, match="'odd' has no image"):
        to_config_map("demo", [task_of(1)], {"even": "e:1"})


def test_data_set_that_is_too_large_says_how_much_would_fit() -> None:
    noise = random.Random(0)
    tasks = [task_of(number, gold_patch=noise.randbytes(3_000).hex()) for number in range(600)]

    with pytest.raises(DatasetTooLargeError, match="push about"):
        to_config_map("demo", tasks, {"even": "e:1", "odd": "o:1"})
