"""What the README tells people to type, open or paste is there."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sweyard_api.validate import validate_text
from sweyard_cli.demo.dataset import PACKAGES, UNSEEN_PACKAGES
from sweyard_cli.main import app

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text()
CODE = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
MAX_LINES = 150
MAX_YAML_LINES = 10
GROUPS = {"tasks", "cache"}
COMMANDS = sorted(
    {*re.findall(r"^\$ (sweyard .+)$", README, re.MULTILINE), *re.findall(r"`(sweyard [a-z][^`]*)`", README)}
)
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


def test_its_file_is_a_valid_run_of_at_most_ten_lines() -> None:
    (text,) = (text for language, text in CODE if language == "yaml")
    assert validate_text(text, file="README.md") == []
    assert len(text.splitlines()) <= MAX_YAML_LINES


def test_the_demo_s_packages_are_named() -> None:
    packages = [value.partition("==")[0] for value in (*PACKAGES, *UNSEEN_PACKAGES)]
    assert [package for package in packages if package not in README] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_and_their_options_exist(command: str) -> None:
    name, *arguments = shlex.split(command, comments=True)[1:]
    words = [name, arguments.pop(0)] if name in GROUPS else [name]
    told = CliRunner().invoke(app, [*words, "--help"])
    assert told.exit_code == 0, told.output
    assert [option for option in arguments if option.startswith("-") and option not in told.output] == []


def test_its_program_is_part_of_an_example_that_can_be_run() -> None:
    (program,) = (text for language, text in CODE if language == "python")
    example = (CHECKOUT / "examples" / "pool" / "claim.py").read_text()
    assert "".join(f"    {line}\n" for line in program.splitlines()) in example
