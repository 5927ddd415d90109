"""Pages that promise something name the tests that hold it; these exist."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TESTS = {
    name
    for path in (REPOSITORY / "tests").rglob("*.py")
    for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("page", ["reliability.md", "security.md"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (REPOSITORY / "docs" / page).read_text(encoding="utf-8")))
    assert named
    assert named <= TESTS
