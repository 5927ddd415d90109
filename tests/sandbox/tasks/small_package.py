"""A small package with tests, for tasks that are made in seconds."""

from pathlib import Path

MODULE = '''\
def clamp(value, low, high):
    """Between low and high."""
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
'''
CASES = """\
clamp(5, 1, 3) == 3
clamp(0, 1, 3) == 1
clamp(2, 1, 3) == 2
clamp(1, 1, 3) == 1
count([1, 2, 1], 1) == 2
count([], 1) == 0
first([None, "", 3]) == 3
first([], 7) == 7
spread([4, 1, 9]) == 8
spread([]) == 0
""".splitlines()


def unittest_suite(package: str) -> str:
    tests = "".join(
        f"    def test_case_{number}(self):\n        self.assertEqual({case.replace(' == ', ', ')})\n\n"
        for number, case in enumerate(CASES)
    )
    return f"import unittest\n\nfrom {package}.core import *\n\n\nclass CoreTest(unittest.TestCase):\n{tests}"


def pytest_suite(package: str) -> str:
    tests = "".join(f"def test_case_{number}():\n    assert {case}\n\n\n" for number, case in enumerate(CASES))
    return f"import pytest\n\nfrom {package}.core import *\n\n\n{tests}"


def write_repository(root: Path, package: str, suite: str, module: str = MODULE) -> Path:
    for path, text in {
        f"{package}/__init__.py": "",
        f"{package}/core.py": module,
        "tests/test_core.py": suite,
        "pyproject.toml": f'[project]\nname = "{package}"\nlicense = "MIT"\n',
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root
