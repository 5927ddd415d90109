"""What `--help` says of each command."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sweyard_cli.main import app

Sweyard = Callable[..., Any]


def commands(group: Any, *before: str) -> Iterator[str]:
    """All that there are, as they are typed."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield " ".join([*before, name])


COMMANDS = list(commands(typer.main.get_command(app)))


def test_there_are_commands_for_each_part() -> None:
    assert {command.partition(" ")[0] for command in COMMANDS} >= {
        "run",
        "logs",
        "doctor",
        "tasks",
        "cache",
        "rollouts",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_an_example(sweyard: Sweyard, command: str) -> None:
    result = sweyard(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"Example: sweyard {command}" in " ".join(result.stdout.split())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_help_calls_values_by_name_and_shows_no_type_of_python(sweyard: Sweyard, command: str) -> None:
    told = sweyard(*command.split(), "--help").stdout
    assert re.findall(r"<[\w\[\] ]+>|\[\[", told) == []


def test_paragraphs_of_a_help_are_broken_where_the_terminal_is() -> None:
    told = CliRunner().invoke(app, ["ui", "--help"], env={"TERMINAL_WIDTH": "200", "COLUMNS": "200"}).stdout
    assert "whose volume is mounted at DIR/NAME has" in told


def test_the_help_of_making_tasks_tells_its_defaults(sweyard: Sweyard) -> None:
    told = " ".join(sweyard("tasks", "make", "--help").stdout.replace("│", " ").split())
    for default in (
        "train on. Default: 60,",
        "Default: 20,",
        "trained on. Default: 12,",
        "which are equality, boundary,",
    ):
        assert default in told
