"""A small package with tests, for tasks that are made in seconds."""

from pathlib import Path

MODULE = """\
def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value


def count(items, wanted):
    total = 0
    for item in items:
        if item == wanted:
            total += 1
    return total


def first(items, default=None):
    for item in items:
        if item is not None and item != "":
            return item
    return default


def spread(items):
    if not items:
        return 0
    return max(items) - min(items)
"""
SUITE = """\
import unittest

from gauge.core import clamp, count, first, spread


class CoreTest(unittest.TestCase):
    def test_clamp(self):
        self.assertEqual([clamp(value, 1, 3) for value in (0, 1, 2, 3, 5)], [1, 1, 2, 3, 3])

    def test_count(self):
        self.assertEqual((count([1, 2, 1], 1), count([], 1)), (2, 0))

    def test_first(self):
        self.assertEqual((first([None, "", 3]), first([], 7)), (3, 7))

    def test_spread(self):
        self.assertEqual((spread([4, 1, 9]), spread([])), (8, 0))
"""


def write_repository(root: Path) -> Path:
    """The package `gauge` as a source tree."""
    for path, text in {
        "gauge/__init__.py": "",
        "gauge/core.py": MODULE,
        "tests/test_core.py": SUITE,
        "pyproject.toml": '[project]\nname = "gauge"\nlicense = "MIT"\n',
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root
