"""The report as Markdown: what a model wrote stays text, whatever it looks like to a renderer."""

import re

from sweyard_cli.report.page import report_templates, told_of
from sweyard_cli.results.run_results import RunResults

_TICKS = re.compile(r"`+")
_MEANT = re.compile(r"([\\`*_\[\]<>#|~&$])")


def render_markdown(results: RunResults, curve: str) -> str:
    """The report of a run, finished or not; `curve` is where its picture lies, from where the report does."""
    templates = report_templates(autoescape=False)
    templates.filters.update(plain=plain, code=code, fenced=fenced)
    return templates.get_template("page.md.j2").render(**told_of(results), curve=curve)


def plain(text: str) -> str:
    """In a line of prose, or a cell of a table."""
    return _MEANT.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """In a line, as it is."""
    ticks = "`" * (longest_run(text) + 1)
    line = " ".join(text.split())
    return f"{ticks} {line} {ticks}" if line.startswith("`") or line.endswith("`") else f"{ticks}{line}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """A block of its own, as it is."""
    fence = "`" * max(3, longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def longest_run(text: str) -> int:
    """Of backticks, one behind another."""
    return max(map(len, _TICKS.findall(text)), default=0)
