from collections import Counter

import pytest
from benchmarks.prove.mutants import make_mutants


@pytest.mark.parametrize(
    ("line", "wrongs"),
    [
        pytest.param("a < b", ["a <= b"], id="comparison"),
        pytest.param("a + b", ["a - b"], id="arithmetic"),
        pytest.param("a and b", ["a or b"], id="boolean"),
        pytest.param("-a", ["(a)"], id="sign"),
        pytest.param("not a", ["(a)"], id="negation"),
        pytest.param("3", ["4"], id="whole-number"),
        pytest.param("0.5", ["1.0"], id="number"),
        pytest.param("max(a, b)", ["min(a, b)"], id="maximum"),
        pytest.param("a.exp()", ["a"], id="dropped-call"),
        pytest.param("a if b else c", ["c if b else a"], id="branches"),
        pytest.param("torch.exp(a)", [], id="call-of-a-module"),
    ],
)
def test_an_expression_has_these_wrongs(line: str, wrongs: list[str]) -> None:
    mutants = make_mutants(f"x = {line}\n")
    assert [mutant.source for mutant in mutants] == [f"x = {wrong}\n" for wrong in wrongs]
    assert {(mutant.line, mutant.before) for mutant in mutants} == ({(1, f"x = {line}")} if wrongs else set())


def test_conditions_are_turned_round_and_annotations_left_alone() -> None:
    source = "def f(a: int | None) -> bool:\n    if a == 1:\n        return True\n    raise ValueError(1)\n"
    assert Counter(mutant.after for mutant in make_mutants(source)) == {
        "if not (a == 1):": 1,
        "if a != 1:": 1,
        "if a == 2:": 1,
        "return False": 1,
    }
