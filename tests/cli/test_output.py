"""Lists for machines, and completion."""

import json
from collections.abc import Callable
from typing import Any

import pytest
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
