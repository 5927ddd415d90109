"""Lists for machines, and completion."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from sweyard_cli.main import app


def test_a_list_is_the_same_in_each_form(sweyard: Callable[..., Any]) -> None:
    told = json.loads(sweyard("presets", "-o", "json").stdout)
    assert told[0].keys() == {"name", "summary"}
    assert yaml.safe_load(sweyard("presets", "-o", "yaml").stdout) == told
    assert sweyard("presets", "-o", "name").stdout.split() == [entry["name"] for entry in told]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    environment = {
        "_SWEYARD_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "sweyard rollou",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": "sweyard rollou",
        "COMP_CWORD": "1",
    }
    assert "rollouts" in CliRunner().invoke(app, [], prog_name="sweyard", env=environment).stdout


def help_of(sweyard: Callable[..., Any], *words: str) -> str:
    return " ".join(sweyard(*words, "--help").stdout.split())


def commands(group: Any = None, *above: str) -> list[tuple[str, ...]]:
    """All of them, those of groups too."""
    group = group or typer.main.get_command(app)
    found: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        found += commands(command, *above, name) if hasattr(command, "commands") else [(*above, name)]
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help_speaks_of_values_by_name_and_has_an_example(words: tuple[str, ...], sweyard: Callable[..., Any]) -> None:
    told = help_of(sweyard, *words)
    assert re.findall(r"<[\w\[\] ]+>|\[\[", told.partition("Example:")[0]) == []
    assert f"Example: sweyard {' '.join(words)}" in told


def test_paragraphs_of_help_are_broken_where_the_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    told = CliRunner().invoke(app, ["ui", "--help"], env={"TERMINAL_WIDTH": "200", "COLUMNS": "200"}).stdout
    assert "whose volume is mounted at DIR/NAME has" in told
