"""Every kind of bug, on one line each; and what is never touched."""

import ast
import signal
import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.tasks.diff import lines_of, unified_diff
from sweyard_sandbox.tasks.mutation.find import find_mutations
from sweyard_sandbox.tasks.mutation.kinds import KINDS

CASES = [
    ("equality", "return a == b", "return a != b"),
    ("boundary", "return a < b", "return a <= b"),
    ("comparison_direction", "return a >= b", "return a <= b"),
    ("boolean_operator", "return a and b", "return a or b"),
    ("not_removed", "return not a", "return a"),
    ("not_added", "x = 1 if a.ready else 2", "x = 1 if not a.ready else 2"),
    ("arithmetic", "return a + b", "return a - b"),
    ("arithmetic", "a += b", "a -= b"),
    ("constant", "return a[1:]", "return a[2:]"),
    ("constant", "return a[1:]", "return a[0:]"),
    ("return_none", "return a", "return None"),
    ("return_negated", "return a in b", "return not (a in b)"),
    ("identity", "return a is not b", "return a is b"),
    ("membership", "return a not in b", "return a in b"),
    ("extreme", "return max(a, b)", "return min(a, b)"),
    ("extreme", "return any(a)", "return all(a)"),
    ("boolean_literal", "f(a, key=True)", "f(a, key=False)"),
    ("loop_exit", "for x in a: break", "for x in a: continue"),
    ("argument_order", "return f(a, b.c, *a)", "return f(b.c, a, *a)"),
    ("statement_dropped", "raise ValueError(a)", "pass"),
    ("statement_dropped", "a.append(b)", "pass"),
]


@pytest.mark.parametrize(("kind", "before", "after"), CASES)
def test_bug_of_each_kind(kind: str, before: str, after: str) -> None:
    source = f"def g(a, b):\n    {before}\n"
    made = {(each.kind, each.apply(source)) for each in find_mutations("m.py", source)}

    assert (kind, f"def g(a, b):\n    {after}\n") in made


def test_every_kind_has_a_case() -> None:
    assert {kind for kind, _, _ in CASES} == set(KINDS)


@pytest.mark.parametrize(
    "source",
    [
        "x = 1 + 2\n",
        'def g():\n    """Returns 1 == 2."""\n',
        "@cache(1)\ndef g(a: Literal[1, 2]) -> Literal[True]:\n    pass\n",
        "def g(:\n",
        "def g(a):\n    return (a\n    )\n".replace("(a\n    )", "f(\n        a, a)"),
        "def g(a):\n    f(a, a, b=1 if a is None else a)\n"[:0],
    ],
    ids=["outside functions", "docstring", "annotations and decorators", "does not parse", "over lines", "empty"],
)
def test_left_alone(source: str) -> None:
    assert find_mutations("m.py", source) == []


def test_mutation_knows_its_function() -> None:
    source = (
        "class A:\n    @property\n    def f(self):\n        def g(a):\n            return a < 1\n        return g\n"
    )
    found = find_mutations("m.py", source)

    boundary = next(each for each in found if each.kind == "boundary")
    assert (boundary.function, boundary.function_line, boundary.line, boundary.old) == ("A.f.g", 4, 5, "<")
    assert next(each for each in found if each.function == "A.f").function_line == 2


def test_most_mutations_parse_and_change_one_line() -> None:
    with open(ast.__file__, encoding="utf-8") as file:
        source = file.read()
    for mutation in find_mutations("ast.py", source)[::7]:
        broken = mutation.apply(source)
        changed = [
            number
            for number, pair in enumerate(zip(source.split("\n"), broken.split("\n"), strict=True), 1)
            if len({*pair}) > 1
        ]
        assert changed == [mutation.line]


@given(st.text("ab\n\r\x0c\x1c\u2028", max_size=30), st.text("ab\n\r\x0c\x1c\u2028", max_size=30))
def test_diff_says_where_a_newline_is_missing(before: str, after: str) -> None:
    patch = unified_diff("a", before, after)

    assert (patch == "") == (before == after)
    assert "".join(lines_of(before)) == before
    assert patch.endswith("\n") or not patch


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_in_the_midst_of_a_module_ends_it_as_that_signal(number: int, kind: type[BaseException]) -> None:
    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_name == "after_codegen":  # libcst is placing a node within others
            sys.setprofile(None)
            signal.raise_signal(number)

    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.setprofile(interrupt)
    try:
        with pytest.raises(kind):
            find_mutations("a.py", "def f(x):\n    try:\n        return x == 1\n    except E:\n        return 2\n")
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGTERM, before)
