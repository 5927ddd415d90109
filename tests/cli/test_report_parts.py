"""Choosing, cutting, scaling: the pure parts of the report."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sweyard_cli.report.choose import choose_attempts, clearest_group, most_telling_task
from sweyard_cli.report.diff import diff_lines
from sweyard_cli.report.line_chart import unbroken
from sweyard_cli.report.reading import FIRST_MESSAGES, LAST_MESSAGES, turns_of
from sweyard_cli.report.scale import moving_mean, round_ticks
from sweyard_cli.report.text import cut, shown, visible
from sweyard_cli.results.attempts import AttemptKey
from sweyard_cli.results.run_results import read_results

numbers = st.floats(min_value=-1e9, max_value=1e9)


def key(task: str, outcome: str, group: str = "g", num_turns: int = 2) -> AttemptKey:
    return AttemptKey(Path(), "0", task, group, outcome, num_turns)


@given(numbers, numbers)
@example(0.0, 5e-324)
@example(3.0, 3.0)
def test_ticks_enclose_the_values_and_are_few_and_even(low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    if 0 < high - low < 1e-6 * max(abs(low), abs(high)):
        return  # no room between floats for round numbers
    ticks = round_ticks(low, high)
    slack = 1e-6 * (ticks[-1] - ticks[0])
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 8
    gaps = [after - before for before, after in itertools.pairwise(ticks)]
    assert all(math.isclose(gap, gaps[0], rel_tol=1e-6) and gap > 0 for gap in gaps)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
def test_a_smoothed_curve_is_finite(values: list[float]) -> None:
    bounded = [value if not math.isfinite(value) else max(-1e6, min(1e6, value)) for value in values]
    smoothed = moving_mean([(float(step), value) for step, value in enumerate(bounded)], 5)
    assert all(math.isfinite(value) for _, value in smoothed)


def test_a_line_breaks_where_a_value_is_no_number() -> None:
    points = [(1.0, 0.5), (2.0, math.nan), (3.0, math.inf), (4.0, 0.1), (5.0, 0.2)]
    assert list(unbroken(points)) == [[(1.0, 0.5)], [(4.0, 0.1), (5.0, 0.2)]]


@given(st.text(max_size=300), st.integers(min_value=3, max_value=100))
def test_a_cut_text_is_bounded_and_says_how_much_is_missing(text: str, limit: int) -> None:
    result = cut(text, limit)
    if len(text) <= limit:
        assert result == text
    else:
        assert f"{len(text) - limit:,} characters left out" in result
        assert len(result) <= limit + 50
        assert result.startswith(text[: limit * 2 // 3])


@given(st.text(alphabet=st.characters(), max_size=100))
def test_nothing_of_a_text_stays_invisible(text: str) -> None:
    assert all(character.isprintable() or character in "\n\t" for character in visible(text))


VISIBLE = {
    "an escape sequence": ("\x1b[2J", "\u241b[2J"),
    "a NUL": ("a\x00b", "a\u2400b"),
    "reversed direction": ("\u202egnp", "<U+202E>gnp"),
    "no width": ("a\u200bb", "a<U+200B>b"),
    "half a surrogate pair": ("\ud83d", "<U+D83D>"),
    "ordinary text": ("if x:\n\treturn \u00e9", "if x:\n\treturn \u00e9"),
}


@pytest.mark.parametrize(("text", "expected"), VISIBLE.values(), ids=VISIBLE)
def test_what_a_browser_would_hide_is_shown(text: str, expected: str) -> None:
    assert shown(text, 100) == expected


PATCH = """\
diff --git a/x.py b/x.py
index 1..2 100644
--- a/x.py
+++ b/x.py
@@ -1,3 +1,3 @@ def f():
 same
--- old
+++ new
\\ No newline at end of file
diff --git a/y.py b/y.py
"""


def test_lines_of_a_diff_are_told_apart_also_where_they_look_like_headers() -> None:
    kinds = [kind for kind, _ in diff_lines(PATCH)]
    assert kinds == [*["header"] * 4, "hunk", "context", "removed", "added", "note", "header"]


def test_the_most_telling_task_is_one_that_only_training_solved() -> None:
    before = [key("a", "unsolved"), key("b", "solved"), key("c", "unsolved")]
    after = [key("a", "unsolved"), key("b", "solved"), key("c", "solved")]
    assert most_telling_task([before, after]) == "c"


def test_the_evaluation_just_before_counts_above_earlier_ones() -> None:
    untrained = [key("a", "solved"), key("b", "unsolved")]
    warmed = [key("a", "unsolved"), key("b", "solved")]
    after = [key("b", "solved"), key("a", "solved")]
    assert most_telling_task([untrained, warmed, after]) == "a"


def test_without_attempts_no_task_is_told() -> None:
    assert most_telling_task([]) is None
    assert most_telling_task([[]]) is None


def test_the_clearest_group_holds_both_ends() -> None:
    keys = [
        key("a", "solved", "g1"),
        key("b", "unsolved", "g2"),
        key("b", "solved", "g2"),
        key("b", "unsolved", "g2", 6),
    ]
    assert [(k.outcome, k.num_turns) for k in clearest_group(keys)] == [("unsolved", 6), ("solved", 2)]


def test_where_all_attempts_are_alike_one_is_shown() -> None:
    assert clearest_group([key("a", "truncated"), key("b", "truncated")]) == [key("a", "truncated")]
    assert clearest_group([]) == []


def test_a_dozen_attempts_are_chosen_with_first_and_last_step_and_each_end(make_run: Callable[..., Path]) -> None:
    chapters = choose_attempts(read_results(make_run()))
    assert [chapter.title for chapter in chapters] == [
        "Held out (heldout)",
        "Training step 1",
        "Training step 2",
        "Other ends",
    ]
    assert [choice.key.outcome for choice in chapters[0].choices] == ["unsolved", "unsolved", "solved"]
    assert {choice.key.outcome for choice in chapters[3].choices} == {"max_turns", "env_infra"}


@pytest.mark.parametrize("count", [0, 1, FIRST_MESSAGES + LAST_MESSAGES, FIRST_MESSAGES + LAST_MESSAGES + 1, 500])
def test_of_a_long_conversation_the_middle_is_left_out(count: int) -> None:
    messages = [("assistant" if index % 2 else "user", str(index)) for index in range(count)]
    turns = list(turns_of(messages))
    told = [turn.text for turn in turns if turn.who]
    if count <= FIRST_MESSAGES + LAST_MESSAGES:
        assert told == [content for _, content in messages]
    else:
        assert told == [str(i) for i in (*range(FIRST_MESSAGES), *range(count - LAST_MESSAGES, count))]
        assert f"{count - FIRST_MESSAGES - LAST_MESSAGES} message" in next(t.text for t in turns if not t.who)


def test_speakers_are_named_by_their_part() -> None:
    messages = [("system", "s"), ("user", "task"), ("assistant", "call"), ("user", "result"), ("tool", "more")]
    assert [turn.who for turn in turns_of(messages)] == [
        "instructions",
        "prompt",
        "model",
        "observation",
        "observation",
    ]
