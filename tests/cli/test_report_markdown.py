"""The report as Markdown, as a renderer takes it: what a model wrote is never more than text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from tests.cli.conftest import attempt

from sweyard_cli.report.markdown import code, fenced, plain, render_markdown
from sweyard_cli.results.run_results import read_results

MakeRun = Callable[..., Path]
PARSER = MarkdownIt("commonmark").enable("table")
ATTACK = "```\n</script><img src=x onerror=alert(1)> [link](https://evil.example) ![](x) | **a** `b`\n# heading\n````"


def flat(tokens: list[Token] | None) -> list[Token]:
    return [each for token in tokens or [] for each in (token, *flat(token.children))]


def parsed(run: Path) -> list[Token]:
    return flat(PARSER.parse(render_markdown(read_results(run), "curve.png")))


def words(tokens: list[Token], kind: str) -> str:
    return "\n".join(token.content for token in tokens if token.type == kind)


def test_it_has_the_figures_the_curve_and_the_attempts(make_run: MakeRun) -> None:
    tokens = parsed(make_run())
    assert "after training" in words(tokens, "inline")
    assert "**50 %** (2 of 4, 10 to 90 %)" in words(tokens, "inline")
    assert [token.attrGet("src") for token in tokens if token.type == "image"] == ["curve.png"]
    assert sum(token.type == "table_open" for token in tokens) == 1
    assert {"fix it\n", "as solved\n", "test_one passed\n"} <= {t.content for t in tokens if t.type == "fence"}


FIELDS: dict[str, dict[str, Any]] = {
    "a message": {"transcript": [{"role": "user", "content": ATTACK}, {"role": "assistant", "content": ATTACK}]},
    "a patch": {"patch": ATTACK},
    "a log": {"grading_log": ATTACK},
    "a task's name": {"task_id": ATTACK},
    "an outcome": {"outcome": ATTACK},
}


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_what_a_model_wrote_is_no_markup(make_run: MakeRun, fields: dict[str, Any]) -> None:
    tokens = parsed(make_run(attempts={"step-000001": [{**attempt(), **fields}]}))
    kinds = {token.type for token in tokens}
    assert not kinds & {"html_block", "html_inline", "link_open"}
    assert sum(token.type == "image" for token in tokens) == 1
    assert "heading" not in [token.content for token in tokens]
    assert "<img" in "".join(token.content for token in tokens if token.type in ("fence", "code_inline", "text"))


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_text_comes_back_as_it_was(text: str) -> None:
    line = " ".join(text.split())
    [block] = PARSER.parse(fenced(line))
    assert (block.type, block.content) == ("fence", f"{line}\n" if line else "\n")
    if line:
        assert [token.content for token in flat(PARSER.parse(f"x {code(line)}")) if token.type == "code_inline"] == [
            line
        ]
        shown = flat(PARSER.parse(f"x {plain(line)}"))
        assert "".join(token.content for token in shown if token.type.startswith("text")) == f"x {line}"


def test_a_name_that_ends_in_md_asks_for_it(make_run: MakeRun, sweyard: Callable[..., Any], tmp_path: Path) -> None:
    result = sweyard("report", make_run(), "-o", tmp_path / "mine.md")
    assert result.exit_code == 0
    assert "](<mine.png>)" in (tmp_path / "mine.md").read_text()
    assert (tmp_path / "mine.png").exists()
