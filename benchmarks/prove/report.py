"""Dated results in docs/performance.md: each proof replaces its own section and leaves the rest."""

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

DOCUMENT = Path("docs/performance.md")


@dataclass(frozen=True, slots=True)
class Section:
    """What one proof printed."""

    title: str
    command: str
    lines: Iterable[str]


def write_section(section: Section, document: Path = DOCUMENT, now: datetime | None = None) -> None:
    """Between the markers of its title; at the end of the document the first time."""
    text = document.read_text(encoding="utf-8")
    begin, end = f"<!-- proof: {section.title} -->", f"<!-- end: {section.title} -->"
    body = render(section, now or datetime.now(UTC))
    block = f"{begin}\n{body}\n{end}\n"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end) + "\n", re.DOTALL)
    found = pattern.search(text)
    changed = text[: found.start()] + block + text[found.end() :] if found else f"{text.rstrip()}\n\n{block}"
    document.write_text(changed, encoding="utf-8")


def render(section: Section, now: datetime) -> str:
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    lines = "\n".join(section.lines)
    return f"## {section.title}\n\n`{section.command}`, {now:%Y-%m-%d}, {machine}.\n\n{lines}\n"
