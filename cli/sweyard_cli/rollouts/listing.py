"""Attempts one a line: thousands of them must be quick, so this is no table that measures itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweyard_cli.report.text import visible

COLUMNS = ("attempt_id", "outcome", "reward", "num_turns", "num_sampled_tokens", "num_tokens")
HEADER = ("attempt", "outcome", "reward", "turns", "sampled", "tokens")
_TO_THE_RIGHT = slice(2, None)
_GAP = "  "


def table_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The header first; columns as wide as their longest value."""
    cells = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)]
        right = [cell.rjust(width) for cell, width in zip(row[_TO_THE_RIGHT], widths[_TO_THE_RIGHT], strict=True)]
        yield _GAP.join((*left, *right))


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    attempt_id, outcome, reward, *counts = (row[name] for name in COLUMNS)
    attempt_id, outcome = (text if text.isprintable() else visible(text) for text in (attempt_id, outcome))
    return (attempt_id, outcome, f"{reward:.4g}", *map(str, counts))
