"""Nodes by images as a heat map on a terminal, a line for each node in a pipe."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweyard_cli.cache.forecast_view import size
from sweyard_cli.cache.holdings import Holdings, States
from sweyard_cli.figures import plural
from sweyard_operator.cache_agent.protocol import ImageState

_SHADES = " ░▒▓█"
_LEGEND = (
    "a column is some images, in order of need: █ all held, lighter for fewer, · none for this node, red: failures"
)
_TOLD_NODES = 3
_LABEL_CELLS = 46


def show_holdings(told: Holdings, console: Console) -> None:
    """Print one cache."""
    console.print(f"ImageCache {told.name}: {told.condition}", markup=False)
    if console.is_terminal and told.states:
        console.print(_map(told, max(10, console.width - _LABEL_CELLS)))
        console.print(_LEGEND, style="dim", markup=False)
    else:
        for node in told.states:
            console.print(f"{node}: {_count(told, node)}", markup=False)
    for line in describe_failures(told):
        console.print(line, markup=False, style="red" if console.is_terminal else None)


def describe_failures(told: Holdings) -> Iterator[str]:
    """A line for each image and reason."""
    for failure in told.failures:
        more = f" and {len(failure.nodes) - _TOLD_NODES} more" if len(failure.nodes) > _TOLD_NODES else ""
        nodes = ", ".join(failure.nodes[:_TOLD_NODES]) + more
        yield f"{failure.state}: {failure.image} on {nodes}: {failure.reason}: {failure.message}"


def _map(told: Holdings, width: int) -> Table:
    columns = split_columns(told.images, width)
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
    for node, states in told.states.items():
        table.add_row(Text(node), draw_row(states, columns), Text(_count(told, node)))
    return table


def split_columns(images: Sequence[str], width: int) -> list[Sequence[str]]:
    """At most `width` of about the same number of images each, in order."""
    count = min(width, len(images))
    bounds = [round(i * len(images) / count) for i in range(count + 1)] if count else [0]
    return [images[begin:end] for begin, end in pairwise(bounds)]


def draw_row(states: States, columns: Sequence[Sequence[str]]) -> Text:
    """A cell a column: the share held of what this node is to hold of it."""
    row = Text()
    for column in columns:
        found = [states[image] for image in column if image in states]
        if not found:
            row.append("·", "dim")
            continue
        held = sum(state is ImageState.CACHED for state in found) / len(found)
        # Only what is complete is black, and only what has not begun is white.
        shade = len(_SHADES) - 1 if held == 1.0 else min(len(_SHADES) - 2, -int(-held * (len(_SHADES) - 1) // 1))
        has_failed = ImageState.FAILED in found
        row.append("✗" if has_failed and not held else _SHADES[shade], "red" if has_failed else "green")
    return row


def _count(told: Holdings, node: str) -> str:
    counts = Counter(told.states[node].values())
    parts = [f"{counts[ImageState.CACHED]:,} of {plural(len(told.states[node]), 'image')} held"]
    parts += [f"{counts[state]:,} {state}" for state in ImageState if state is not ImageState.CACHED and counts[state]]
    if note := told.note(node):
        parts.append(note)
    if told.used_bytes[node]:
        parts.append(f"{size(told.used_bytes[node])} used")
    return ", ".join(parts)
