from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.rollouts import sealed as sealed_module
from sweyard_trainer.rollouts.codec import encode
from sweyard_trainer.rollouts.files import step_label
from sweyard_trainer.rollouts.reading import iterate_batches
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.rollouts.surrogates import escape
from sweyard_trainer.rollouts.trigrams import may_hold, trigram_metadata, trigrams_of_file, trigrams_of_group
from sweyard_trainer.trajectory import Trajectory

MakeAttempt = Callable[..., Trajectory]


def told_of(*texts: str, group: int = 0) -> dict[bytes, bytes]:
    """The metadata of a row group of attempts that say these."""
    said = [[{"role": "user", "content": text}] for text in texts]
    rows = [encode(Trajectory("1/t/0", "t", "1/t", (), Outcome.SOLVED, 1.0, transcript=each)) for each in said]
    return {name.encode(): told.encode() for name, told in trigram_metadata(group, rows).items()}


@given(st.lists(st.text(max_size=20), min_size=1, max_size=3), st.data())
def test_what_is_there_is_never_taken_for_absent(texts: list[str], data: st.DataObject) -> None:
    text = escape(data.draw(st.sampled_from(texts)))
    first, last = (data.draw(st.integers(0, len(text))) for _ in range(2))
    told = told_of(*texts)
    for part in (text[first:last], text[first:last].encode().upper().decode()):
        assert may_hold(trigrams_of_group(told, 0), part)
        assert may_hold(trigrams_of_file(told), part)


@pytest.mark.parametrize(
    ("sought", "expected"),
    [("the index", True), ("THE INDEX", True), ("indices", False), ("ex", True), ("", True), ("\u00e9t\u00e9", True)],
)
def test_a_row_group_is_told_by_runs_of_three_small_letters(sought: str, expected: bool) -> None:
    told = told_of("Beside The Index", "or not")
    assert may_hold(trigrams_of_group(told, 0), sought) is expected
    assert may_hold(trigrams_of_file(told | told_of("", group=1)), sought) is expected
    assert may_hold(trigrams_of_group(told, 1), sought), "of another row group nothing is known"
    assert may_hold(trigrams_of_file(None), sought)


def test_row_groups_without_the_text_are_not_read(
    tmp_path: Path, make_attempt: MakeAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_module, "ROW_GROUP_BYTES", 1)
    attempts = [make_attempt(f"1/t/{index}", patch=f"+{word}") for index, word in enumerate(["alpha", "beta"])]
    path = seal(tmp_path / step_label(1), attempts)
    found = [rows["attempt_id"].to_pylist() for rows in iterate_batches(path, ["attempt_id"], holding="beta")]
    assert found == [["1/t/1"]]
