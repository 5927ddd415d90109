"""What the fault matrix writes: a row a fault, also for those that failed, and none lost that was not tried again."""

from pathlib import Path
from typing import Literal

import pytest
from benchmarks.prove.faults import ALONE, HEAD, MATRIX, NODES, Recorder, make_row, merge_rows, select_tests

TEST = "test_a_run_ends_as_if_undisturbed_by"
ROWS = [
    "| API server | as undisturbed | 1 | 0 |  | 61 | 2030-01-01 |",
    "| etcd | failed |  |  |  | 300 | 2030-01-01 |",
    "| drain | as undisturbed | 2 | 0 | Disrupted | 90 | 2030-01-01 |",
    "| node of rank 0 lost | as undisturbed | 2 | 0 | Disrupted | 200 | 2030-01-01 |",
]


def report(
    test: str,
    seconds: float,
    *,
    outcome: Literal["passed", "failed"] = "passed",
    when: Literal["setup", "call", "teardown"] = "call",
    **told: object,
) -> pytest.TestReport:
    return pytest.TestReport(
        test, ("", None, test), {}, outcome, None, when, duration=seconds, user_properties=list(told.items())
    )


REPORTS = [
    report(f"{MATRIX}::{TEST}[API server]", 61.4, restarts=0, attempts=1),
    report(f"{MATRIX}::{TEST}[etcd]", 300.2, outcome="failed"),
    report(f"{ALONE['drain']}::test_a_drained_trainer_saves", 90, restarts=0, attempts=2, failure="Disrupted"),
    report(
        f"{NODES}::test_a_gang_goes_on_without_the_lost_node_of[rank 0]",
        200,
        restarts=0,
        attempts=2,
        failure="Disrupted",
    ),
]


def test_each_test_is_a_row_with_what_it_cost() -> None:
    assert [make_row(one, "2030-01-01") for one in REPORTS] == ROWS


def test_a_row_is_written_once_its_test_has_ended(tmp_path: Path) -> None:
    document = tmp_path / "reliability.md"
    document.write_text("# Reliability\n")
    recorder = Recorder(document)
    recorder.pytest_runtest_logreport(report(f"{MATRIX}::{TEST}[etcd]", 20, when="setup"))
    assert "etcd" not in document.read_text()
    recorder.pytest_runtest_logreport(report(f"{MATRIX}::{TEST}[kubelet]", 20, when="setup", outcome="failed"))
    recorder.pytest_runtest_logreport(report(f"{MATRIX}::{TEST}[etcd]", 30))
    recorder.pytest_runtest_logreport(report(f"{MATRIX}::{TEST}[etcd]", 20, when="setup", outcome="failed"))
    rows = [line for line in document.read_text().splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| fault", "outcome"],
        ["| kubelet", "failed"],
        ["| etcd", "as undisturbed"],
    ]


def test_rows_that_were_not_tried_again_stay() -> None:
    table = "\n".join([*HEAD, *ROWS])
    document = f"| a | b |\n| other | table |\n<!-- proof: Faults -->\n{table}\n<!-- end: Faults -->\n"
    again = "| etcd | as undisturbed | 1 | 0 |  | 95 | 2030-01-02 |"
    kubelet = "| kubelet | failed |  |  |  | 1 | 2030-01-02 |"
    assert merge_rows(document, [again, kubelet]) == [ROWS[0], again, *ROWS[2:], kubelet]
    assert merge_rows("no section yet", ROWS) == ROWS


def test_rows_are_chosen_by_name() -> None:
    chosen = select_tests(["drain", "API server"])
    assert chosen[0].endswith("test_drain.py")
    assert chosen[1].endswith("[API server]")
    assert len(select_tests([])) == 1 + len(ALONE)
