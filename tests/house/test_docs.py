"""The documentation: what its blocks of commands and its tables name is there."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from tests.shell_blocks import CLUSTER, DOCS, HELM, LONG, REGISTRY, RUNS, Block, blocks

from sweyard_api.reference import pages
from sweyard_api.validate import validate_text
from sweyard_cli.main import app
from sweyard_cluster.arguments import parser
from sweyard_operator.metrics import Metrics
from sweyard_operator.run_metrics import RunMetrics

CHECKOUT = DOCS.parent
TARGETS = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
OTHERS = {"cat", "echo", "helm", "kubectl", "source"}
"""Programs that are neither ours nor make."""
RUN_FILES = [
    pytest.param(text, id=f"{page.name}:{number}")
    for page in sorted(DOCS.rglob("*.md"))
    for number, text in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL), 1)
    if text.startswith("apiVersion: sweyard.dev")
]


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.place)
def test_every_command_of_a_block_exists_with_its_options_and_files(block: Block) -> None:
    assert block.needs in (RUNS, CLUSTER, HELM, REGISTRY, *LONG)
    for words in block.commands:
        match words[0]:
            case "sweyard":
                parse(typer.main.get_command(app), words[1:])
            case "make":
                assert {word for word in words[1:] if "=" not in word} <= TARGETS
            case "python":
                assert words[1:3] == ["-m", "sweyard_cluster"]
                parser().parse_args(words[3:])
            case program:
                assert program in OTHERS
        for path in (word for word in words if re.match(r"(examples|charts)/", word)):
            assert (CHECKOUT / path).exists(), path


def parse(command: Any, words: Sequence[str]) -> None:
    """Raise what the command line would raise for these words, and do nothing else."""
    if hasattr(command, "commands"):
        parse(command.commands[words[0]], words[1:])
    else:
        command.make_context(command.name, list(words))


@pytest.mark.parametrize("text", RUN_FILES)
def test_a_file_that_is_shown_is_valid(text: str) -> None:
    assert validate_text(text, file="shown.yaml") == []


def test_pages_made_from_the_models_are_as_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    assert {path: path.read_text() for path in pages()} == pages()


def quoted_messages() -> Iterator[str]:
    """Of the tables of troubleshooting, whose first column is `message`."""
    for line in (DOCS / "troubleshooting.md").read_text().splitlines():
        if line.startswith("| `"):
            yield from re.findall(r"`([^`]+)`", line.split(" | ")[0])


def test_every_message_that_is_explained_is_one_that_the_product_prints() -> None:
    sources = [
        re.sub(r'"\s*\n\s*f?"', "", path.read_text())
        for folder in ("crds", "operator", "sandbox", "trainer", "cli")
        for path in (CHECKOUT / folder).rglob("*.py")
    ]
    told = "\n".join(sources)
    messages = list(quoted_messages())
    assert messages
    assert [message for message in messages if message not in told] == []


def test_every_series_of_the_operator_is_documented_and_no_other() -> None:
    registry = Metrics().registry
    RunMetrics(registry)
    there_are = {f"{family.name}{'_total' * (family.type == 'counter')}" for family in registry.collect()}
    assert set(re.findall(r"`(sweyard_\w+)`", (DOCS / "reference" / "metrics.md").read_text())) == there_are


def test_every_page_is_in_the_site_s_contents() -> None:
    text = (CHECKOUT / "mkdocs.yml").read_text()
    named = re.findall(r"[\w/-]+\.md", yaml.safe_dump(yaml.safe_load(text)["nav"]))
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_nothing_of_the_site_is_loaded_from_elsewhere() -> None:
    settings = yaml.safe_load((CHECKOUT / "mkdocs.yml").read_text())
    assert settings["theme"]["font"] is False
    for page in DOCS.rglob("*.md"):
        assert re.findall(r"!\[[^]]*\]\(https?:|<(?:script|img|link|iframe)\b", page.read_text()) == [], Path(page).name
