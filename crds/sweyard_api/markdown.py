"""The little Markdown that generated pages need."""

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`[^`]*`)")


def as_text(text: str) -> str:
    """Prose in which angle brackets, stars and braces mean themselves; what is between backticks stays as it is."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") else _escape(part) for part in parts)


def _escape(text: str) -> str:
    return re.sub(r"([*\[\]])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A pipe table, ended by an empty line."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
