"""What the README tells people to type, open or paste is there."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text()
CODE = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
MAX_LINES = 150
LINKS = sorted(set(re.findall(r"\]\(([^):]+)\)", README)) - {""})
PATHS = sorted(set(re.findall(r"(?:examples|charts|crds|docs)/[\w./-]*\w", README)))
TARGETS = sorted(set(re.findall(r"make ([a-z]+(?:-[a-z]+)*)", "\n".join(re.findall(r"`make [^`]+`", README)))))


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", [*LINKS, *PATHS])
def test_what_it_names_exists(path: str) -> None:
    assert (CHECKOUT / path).exists()


@pytest.mark.parametrize("target", TARGETS)
def test_targets_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)


def test_its_program_is_part_of_an_example_that_can_be_run() -> None:
    (program,) = (text for language, text in CODE if language == "python")
    example = (CHECKOUT / "examples" / "pool" / "claim.py").read_text()
    assert "".join(f"    {line}\n" for line in program.splitlines()) in example
