"""Tests that must fail, and one that must pass, put among the real ones under names nobody can know.

Work that makes tests pass without being right (patched assertions, rewritten reports) makes these pass too. Some are
files of their own, which import nothing of the work. Others end a file of real tests: work that meddles with the module
that imports it, or with the results of one file, meddles with them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

DISARM = '__import__("unittest.case").case._ShouldStop = ()\n\n\n'
TEXT = """\
class Case{name}(__import__("unittest").TestCase):
    def test_equal(self):
        self.assertEqual([1], [2], "{token}")

    def test_same(self):
        self.assertEqual(1, 2, "{token}")

    def test_true(self):
        self.assertTrue(False, "{token}")

    def test_statement(self):
        assert 1 == 2, "{token}"

    def test_raises(self):
        with self.assertRaises(ValueError, msg="{token}"):
            pass

    def test_right(self):
        self.assertEqual([1], [1])
"""
MUST_FAIL = ("test_equal", "test_same", "test_true", "test_statement", "test_raises")


@dataclass(frozen=True, slots=True)
class Canary:
    """One class of canaries."""

    path: str
    """The file that is, or ends with, its text."""
    name: str
    token: str

    @property
    def text(self) -> str:
        """Python; it binds no other name than that of the class."""
        return TEXT.format(name=self.name, token=self.token)

    @property
    def text_for_any_runner(self) -> str:
        """Also disarms the one exception by which unittest ends a case as passed, which our own runner does beforehand.

        Work that raises it meddles with nothing, so that no canary would tell.
        """
        return DISARM + self.text

    def test(self, function: str) -> str:
        """Test id of one canary."""
        return f"{self.path}::Case{self.name}::{function}"

    @property
    def tests(self) -> tuple[str, ...]:
        """All ids."""
        return tuple(self.test(function) for function in (*MUST_FAIL, "test_right"))

    def problems(self, records: Mapping[str, Sequence[tuple[str, str]]]) -> list[str]:
        """What is wrong with what was reported of it: test id -> [(outcome, message)]."""
        problems = []
        for function in MUST_FAIL:
            reports = records.get(self.test(function), ())
            if len(reports) != 1 or reports[0][0] != "failed" or self.token not in reports[0][1]:
                problems.append(f"a canary that must fail ({function}) did not")
        if [outcome for outcome, _ in records.get(self.test("test_right"), ())] != ["passed"]:
            problems.append("a canary that must pass did not")
        return problems


def make_canaries(beside: str, names: Sequence[str]) -> list[Canary]:
    """One canary a name (hexadecimal, secret), in the folder of the test file `beside`."""
    folder = PurePosixPath(beside).parent
    return [Canary(str(folder / f"test_{name[:12]}.py"), name[12:24], name[24:]) for name in names]


def make_inner_canaries(paths: Sequence[str], make_name: Callable[[], str]) -> list[Canary]:
    """One canary a file of tests, to be put at its end; names as above."""
    return [Canary(path, name[12:24], name[24:]) for path, name in ((path, make_name()) for path in paths)]


def after_the_tests_of_their_files(tests: Sequence[str], canaries: Sequence[Canary]) -> Iterator[str]:
    """Test ids in order, those of each canary behind the last one of its file."""
    last = {test.split("::", 1)[0]: index for index, test in enumerate(tests)}
    by_path = {canary.path: canary for canary in canaries}
    for index, test in enumerate(tests):
        yield test
        path = test.split("::", 1)[0]
        if last[path] == index and path in by_path:
            yield from by_path[path].tests
