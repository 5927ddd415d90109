"""What the fault matrix writes: a row a fault, also for those that failed, and none lost that was not tried again."""

from pathlib import Path

from benchmarks.prove.faults import HEAD, merge_rows, read_rows, select_tests

REPORT = """<testsuites><testsuite>
<testcase name="test_a_run_ends_as_if_undisturbed_by[API server]" time="61.4"><properties>
<property name="restarts" value="0"/><property name="attempts" value="1"/></properties></testcase>
<testcase name="test_a_run_ends_as_if_undisturbed_by[etcd]" time="300.2"><failure message="not reached"/></testcase>
<testcase name="test_a_drained_trainer_saves_and_goes_on_from_the_same_step" time="90"><properties>
<property name="restarts" value="0"/><property name="attempts" value="2"/></properties></testcase>
</testsuite></testsuites>"""
ROWS = [
    "| API server | as undisturbed | 1 | 0 | 61 | 2030-01-01 |",
    "| etcd | failed |  |  | 300 | 2030-01-01 |",
    "| drain | as undisturbed | 2 | 0 | 90 | 2030-01-01 |",
]


def test_each_test_is_a_row_with_what_it_cost(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert list(read_rows(report, "2030-01-01")) == ROWS


def test_rows_that_were_not_tried_again_stay() -> None:
    table = "\n".join([*HEAD, *ROWS])
    document = f"| a | b |\n| other | table |\n<!-- proof: Faults -->\n{table}\n<!-- end: Faults -->\n"
    again = "| etcd | as undisturbed | 1 | 0 | 95 | 2030-01-02 |"
    assert merge_rows(document, [again, "| kubelet | failed |  |  | 1 | 2030-01-02 |"]) == [
        ROWS[0],
        again,
        ROWS[2],
        "| kubelet | failed |  |  | 1 | 2030-01-02 |",
    ]
    assert merge_rows("no section yet", ROWS) == ROWS


def test_rows_are_chosen_by_name() -> None:
    chosen = select_tests(["drain", "API server"])
    assert chosen[0].endswith("test_drain.py")
    assert chosen[1].endswith("[API server]")
    assert len(select_tests([])) == 2
