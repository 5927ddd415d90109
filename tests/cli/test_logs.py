"""sweyard logs: lines of several containers as one, by time."""

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_cli.cluster.log_lines import LogLine, Reordering, merge, parse_line
from sweyard_cli.cluster.log_records import readable
from sweyard_cli.cluster.logs import Arrival, LogSource, in_order, sources_of, whole_lines
from sweyard_cli.commands.logs import parse_parts, parse_since, print_lines
from sweyard_cli.errors import UserError


def line(second: int, source: str = "a", text: str = "") -> LogLine:
    return parse_line(source, f"2026-01-01T00:00:{second:02d}.5Z {text}")


def test_a_line_is_its_time_its_source_and_its_text() -> None:
    assert parse_line("pod/c", "2026-01-01T00:00:00.12Z a b") == LogLine("2026-01-01T00:00:00.120000000Z", "pod/c", "")
    assert parse_line("pod/c", "2026-01-01T00:00:00.12Z a b").text == "a b"
    assert parse_line("x", "2026-01-01T00:00:00Z ") < parse_line("x", "2026-01-01T00:00:00.000000001Z ")


def test_logs_become_one_in_the_order_of_time() -> None:
    merged = merge([[line(1), line(4)], [line(2, "b"), line(3, "b")]])
    assert [(found.source, found.time[17:19]) for found in merged] == [
        ("a", "01"), ("b", "02"), ("b", "03"), ("a", "04"),
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 59), st.floats(0, 0.4)), max_size=30))
def test_lines_that_come_late_by_less_than_the_wait_are_told_in_order(found: list[tuple[int, float]]) -> None:
    waiting, told, clock = Reordering(0.5), [], 0.0
    arrivals = sorted((second + late, second) for second, late in found)
    for arrival, second in arrivals:
        clock = arrival
        told += waiting.due(clock)
        waiting.take(line(second), clock)
    told += waiting.due(float("inf"))
    assert told == sorted(told)
    assert len(told) == len(found)


def test_what_is_followed_ends_with_the_last_log() -> None:
    lines: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
    for each in (line(2), None, line(1, "b"), None):
        lines.put(each)
    assert [found.source for found in in_order(lines, 2)] == ["b", "a"]


def test_a_log_that_breaks_off_is_told_when_the_others_have_ended() -> None:
    lines: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
    for each in (UserError("the log of a cannot be read"), None, line(1, "b"), None):
        lines.put(each)
    told = in_order(lines, 2)
    assert next(told).source == "b"
    with pytest.raises(UserError, match="the log of a"):
        next(told)


def test_lines_are_whole_however_they_were_cut() -> None:
    assert list(whole_lines(iter([b"a\nb", b"c\n", b"\xff"]))) == ["a", "bc", "�"]


def test_containers_that_wait_have_no_log_unless_they_ran_before() -> None:
    def container(name: str, restarts: int = 0, **state: Any) -> dict[str, Any]:
        return {"name": name, "restartCount": restarts, "state": state}

    status = {
        "initContainerStatuses": [container("prepare", terminated={})],
        "containerStatuses": [
            container("new", waiting={}),
            container("again", 1, waiting={}),
            container("up", running={}),
        ],
    }
    pods = [
        {"metadata": {"namespace": "n", "name": "p"}, "status": status},
        {"metadata": {"namespace": "n", "name": "q"}},
    ]
    assert sources_of(pods) == [LogSource("n", "p", name) for name in ("prepare", "again", "up")]


def test_nothing_in_a_line_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines([line(1, "pod/c", "\x1b[2Jgone")])
    assert capsys.readouterr().out == "2026-01-01T00:00:01.500 pod/c ␛[2Jgone\n"


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400)])
def test_a_time_is_written_with_its_unit(text: str, seconds: int) -> None:
    assert parse_since(text) == seconds


def test_wrong_words_are_told_with_the_right_ones() -> None:
    with pytest.raises(UserError, match="--since 10: write it like 90s, 10m or 2h"):
        parse_since("10")
    with pytest.raises(UserError, match="--of pods: there is no such part; take one of trainer, engine"):
        parse_parts(["pods"])


def test_a_run_of_this_machine_has_one_log(make_run: Callable[..., Path], sweyard: Callable[..., Any]) -> None:
    run = make_run()
    assert "holds no run.log" in sweyard("logs", "--output", run).output
    (run / "run.log").write_text("one\ntwo\nthree\n")
    assert sweyard("logs", "-d", run, "--tail", 2, "--follow").stdout == "two\nthree\n"
    assert sweyard("logs", "-d", run, "--tail", 0).stdout == ""


RECORD = '{"time": "t", "level": "info", "logger": "op", "message": "made 1", "object": "RolloutPool/n/r"}'
FAILED = '{"time": "t", "level": "error", "logger": "op", "message": "failed", "exception": "Traceback\\nKeyError: 1"}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(RECORD, "INFO op: made 1 (RolloutPool/n/r)", id="a record"),
        pytest.param(FAILED, "ERROR op: failed\n    Traceback\n    KeyError: 1", id="with a traceback"),
        pytest.param('{"level": "info"}', '{"level": "info"}', id="another program's"),
        pytest.param("{half", "{half", id="no JSON"),
        pytest.param("[1]", "[1]", id="no record"),
    ],
)
def test_a_record_for_machines_is_told_as_people_read_it(text: str, told: str) -> None:
    assert readable(text) == told
