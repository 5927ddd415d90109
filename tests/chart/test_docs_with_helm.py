"""Commands of the documentation for helm: it knows their options, and the chart takes their values."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.shell_blocks import DOCS, HELM, blocks

pytestmark = pytest.mark.apiserver  # needs helm, which is built like the API server

COMMANDS = [
    pytest.param(words[1:], id=f"{block.place} {' '.join(words[1:3])}")
    for block in blocks(HELM)
    for words in block.commands
]


@pytest.mark.parametrize("words", COMMANDS)
def test_helm_and_the_chart_take_it(
    words: list[str], helm: Callable[..., str], render: Callable[..., list[dict[str, Any]]], monkeypatch: Any
) -> None:
    monkeypatch.chdir(DOCS.parent)
    assert "Usage:" in helm(*words, "--help")
    if "--set" in words:
        assert render("--set", words[words.index("--set") + 1])
    for path in (word for word in words if re.match(r"charts/", word)):
        assert (DOCS.parent / path / "Chart.yaml").exists()
