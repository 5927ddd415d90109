"""One fault in each of two dozen small runs on real clusters: `python -m benchmarks.prove.faults [--rows NAME ...]`.

Each row of `tests/e2e/test_fault_matrix.py` is a run, and so is each test of `ALONE`; what was seen goes into
docs/reliability.md as each ends, where rows that were not tried this time stay. Without `--rows` all are tried, after
the stories on an API server that lies. The exit code is not 0 if one failed.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from benchmarks.prove.report import Section, write_section

DOCUMENT = Path("docs/reliability.md")
COMMAND = "python -m benchmarks.prove faults"
HEAD = (
    "| fault | outcome | attempts | restarts | last failure told | seconds | seen |",
    "|---|---|---|---|---|---|---|",
)
STORIES = "tests/operator/run/test_run_chaos.py"
MATRIX = "tests/e2e/test_fault_matrix.py"
NODES = "tests/e2e/test_three_nodes.py"
ENGINE = "tests/e2e/test_engine_on_nodes.py"
SPANNING = (
    "tests/e2e/test_engine_spanning.py::test_a_run_trains_through_an_engine_of_two_pods_and_outlives_the_end_of_either"
)
ALONE = {
    "drain": "tests/e2e/test_drain.py",
    "engines scaled": "tests/e2e/test_engine_scaling.py",
    "engine of two pods": f"{SPANNING}[at work]",
    "idle engine of two pods": f"{SPANNING}[idle]",
    "ranks on two nodes": f"{NODES}::test_ranks_on_nodes_of_one_rack_train_as_one",
    "node of rank 1 drained": f"{NODES}::test_a_drain_takes_one_rank_and_the_gang_goes_on_elsewhere_from_the_same_step",
    "node of rank 1 lost": f"{NODES}::test_a_gang_goes_on_without_the_lost_node_of[rank 1]",
    "node of rank 0 lost": f"{NODES}::test_a_gang_goes_on_without_the_lost_node_of[rank 0]",
    "no node for a rank": f"{NODES}::test_a_gang_with_a_rank_too_many_holds_nothing_until_there_is_a_node_for_it",
    "node of an engine's pod drained": f"{ENGINE}::test_an_engine_one_of_whose_pods_is_drained_comes_back_in_its_rack",
    "node of an engine's pod lost": f"{ENGINE}::test_an_engine_comes_back_without_the_lost_node_of_one_of_its_pods",
}
"""Rows that are not of the matrix: by the beginning of the test's id."""


class Recorder:
    """A pytest plugin: writes each row into the document as soon as it is known."""

    def __init__(self, document: Path = DOCUMENT) -> None:
        self._document = document

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of a test that ran, or that could not begin, which tells less than what was seen before."""
        if report.when != "call" and not (report.when == "setup" and report.failed):
            return
        if report.failed:
            print(report.longreprtext, flush=True)
        row, document = make_row(report, f"{datetime.now(UTC):%Y-%m-%d}"), self._document.read_text(encoding="utf-8")
        if report.when == "setup" and _fault(row) in _rows_by_fault(document):
            return
        rows = merge_rows(document, [row])
        write_section(Section("Faults", COMMAND, [*HEAD, *rows]), self._document)


def make_row(report: pytest.TestReport, day: str) -> str:
    """A line of the table, also for a test that failed."""
    told = dict(report.user_properties)
    alone = next((name for name, test in ALONE.items() if report.nodeid.startswith(test)), None)
    name = alone or report.nodeid.partition("[")[2].rstrip("]")
    seen = " | ".join(str(told.get(one, "")) for one in ("attempts", "restarts", "failure"))
    outcome = "failed" if report.failed else told.get("outcome", "as undisturbed")
    return f"| {name} | {outcome} | {seen} | {report.duration:.0f} | {day} |"


def merge_rows(document: str, new: Iterable[str]) -> list[str]:
    """The rows that the document has, in their order, with those that were seen anew in their place."""
    return [*(_rows_by_fault(document) | {_fault(line): line for line in new}).values()]


def _rows_by_fault(document: str) -> dict[str, str]:
    section = re.search("<!-- proof: Faults -->.*?<!-- end: Faults -->", document, re.DOTALL)
    old = [line for line in section[0].splitlines() if line.startswith("| ")] if section else []
    return {_fault(line): line for line in old if line != HEAD[0]}


def _fault(row: str) -> str:
    return row.split("|")[1].strip()


def select_tests(rows: Sequence[str]) -> list[str]:
    """What pytest is to run; all of them without rows."""
    if not rows:
        return [MATRIX, *ALONE.values()]
    return [ALONE.get(row, f"{MATRIX}::test_a_run_ends_as_if_undisturbed_by[{row}]") for row in rows]


def main() -> int:
    """Parse, try, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="NAME", help=f"of the table, such as {', '.join(ALONE)}"
    )
    rows = parser.parse_args().rows
    if not rows:
        stories = ["pytest", "-p", "tests.strict_skips", "-v", "-m", "slow", STORIES]
        subprocess.run([sys.executable, "-m", *stories], check=True)
    options = ["-p", "tests.strict_skips", "-v", "-s", "-m", "slow"]
    return int(pytest.main([*options, *select_tests(rows)], plugins=[Recorder()]))


if __name__ == "__main__":
    sys.exit(main())
