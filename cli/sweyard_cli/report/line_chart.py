"""Figures over steps as lines; a gap where a value is no number."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sweyard_cli.report.scale import is_drawable, moving_mean
from sweyard_cli.report.svg import (
    Chart,
    Key,
    Label,
    below,
    dot,
    drawing,
    grid,
    horizontal_scale,
    path,
    vertical_scale,
)

MOST_DOTS = 200
"""Of longer series the line alone is drawn."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Series:
    """(step, value) pairs, steps ascending."""

    name: str
    points: Points


def line_chart(
    title: str,
    series: Sequence[Series],
    label: Label,
    *,
    at_least: Sequence[float] = (),
    smooth: int = 1,
    note: str = "",
) -> Chart | None:
    """None where there is nothing to draw. With `smooth` the line is the mean of so many steps, and dots the values."""
    drawn = [one for one in series if any(is_drawable(value) for _, value in one.points)]
    if not drawn:
        return None
    x, x_ticks = horizontal_scale([step for one in drawn for step, _ in one.points])
    y, y_ticks = vertical_scale((value for one in drawn for _, value in one.points), at_least)
    parts = [grid(y, y_ticks, label), below((x(tick), f"{tick:g}") for tick in x_ticks)]
    for index, one in enumerate(drawn):
        style = f"s{index}"
        if smooth > 1 and len(one.points) <= MOST_DOTS:
            faint = f"{style} faint"
            finite_points = [(step, value) for step, value in one.points if is_drawable(value)]
            parts += [dot(x(s), y(v), faint, f"step {s:g}: {label(v)}", 2.5) for s, v in finite_points]
        line = moving_mean(list(one.points), smooth) if smooth > 1 else one.points
        parts += [path([(x(s), y(v)) for s, v in piece], style) for piece in unbroken(line)]
    keys = tuple(Key(one.name, f"s{index}") for index, one in enumerate(drawn))
    return Chart(title, drawing(f"{title}: {_spoken(drawn, label)}", map(Markup, parts)), keys, note)


def unbroken(points: Points) -> Iterator[list[tuple[float, float]]]:
    """Runs of points without a gap."""
    piece: list[tuple[float, float]] = []
    for step, value in points:
        if is_drawable(value):
            piece.append((step, value))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _spoken(series: Sequence[Series], label: Label) -> str:
    """First and last value of each."""
    return "; ".join(f"{one.name} from {label(one.points[0][1])} to {label(one.points[-1][1])}" for one in series)
