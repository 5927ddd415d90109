"""One fault in each of a dozen small runs on a real cluster: `python -m benchmarks.prove.faults [--rows NAME ...]`.

Each row of `tests/e2e/test_fault_matrix.py` and the drain of `tests/e2e/test_drain.py` is a run; what was seen goes
into docs/reliability.md, where rows that were not tried this time stay. Without `--rows` all are tried, after the
stories on an API server that lies. The exit code is not 0 if one failed.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.prove.report import Section, write_section

DOCUMENT = Path("docs/reliability.md")
COMMAND = "python -m benchmarks.prove faults"
HEAD = ("| fault | outcome | attempts | restarts | seconds | seen |", "|---|---|---|---|---|---|")
STORIES = "tests/operator/run/test_run_chaos.py"
MATRIX = "tests/e2e/test_fault_matrix.py"
DRAIN, DRAIN_TEST = "drain", "tests/e2e/test_drain.py"


def read_rows(report: Path, day: str) -> Iterator[str]:
    """Of a JUnit report: a line of a table for each test, also for those that failed."""
    for case in ElementTree.parse(report).iter("testcase"):
        told = {one.get("name"): one.get("value") for one in case.iter("property")}
        is_bad = case.find("failure") is not None or case.find("error") is not None
        name = str(case.get("name")).partition("[")[2].rstrip("]") or DRAIN
        counts = f"{told.get('attempts', '')} | {told.get('restarts', '')}"
        outcome = "failed" if is_bad else "as undisturbed"
        yield f"| {name} | {outcome} | {counts} | {float(case.get('time', 0)):.0f} | {day} |"


def merge_rows(document: str, new: Iterable[str]) -> list[str]:
    """The rows that the document has, in their order, with those that were seen anew in their place."""
    section = re.search("<!-- proof: Faults -->.*?<!-- end: Faults -->", document, re.DOTALL)
    old = [line for line in section[0].splitlines() if line.startswith("| ")] if section else []
    rows = {_fault(line): line for line in old if line != HEAD[0]}
    rows |= {_fault(line): line for line in new}
    return [*rows.values()]


def _fault(row: str) -> str:
    return row.split("|")[1].strip()


def select_tests(rows: Sequence[str]) -> list[str]:
    """What pytest is to run; all of them without rows."""
    if not rows:
        return [MATRIX, DRAIN_TEST]
    return [DRAIN_TEST if row == DRAIN else f"{MATRIX}::test_a_run_ends_as_if_undisturbed_by[{row}]" for row in rows]


def try_rows(rows: Sequence[str]) -> int:
    """pytest's exit code, once what was seen is written. Raises CalledProcessError if nothing could be tried."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "tests.strict_skips", "-v", "-s", "-m", "slow"]
        failed = subprocess.run([*command, f"--junitxml={report}", *select_tests(rows)]).returncode
        if failed not in (0, 1):
            raise subprocess.CalledProcessError(failed, command)
        seen = merge_rows(DOCUMENT.read_text(encoding="utf-8"), read_rows(report, f"{datetime.now(UTC):%Y-%m-%d}"))
    write_section(Section("Faults", COMMAND, [*HEAD, *seen]), DOCUMENT)
    return failed


def main() -> int:
    """Parse, try, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=[], metavar="NAME", help="of the table; `drain` is one")
    rows = parser.parse_args().rows
    if not rows:
        stories = ["pytest", "-p", "tests.strict_skips", "-v", "-m", "slow", STORIES]
        subprocess.run([sys.executable, "-m", *stories], check=True)
    return try_rows(rows)


if __name__ == "__main__":
    sys.exit(main())
