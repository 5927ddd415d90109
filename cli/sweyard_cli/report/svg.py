"""Pieces of the page's charts: inline SVG, coloured by the page's style sheet, so that it follows light and dark."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sweyard_cli.report.scale import Scale, finite, round_ticks

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 30

Label = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend."""

    name: str
    style: str
    """Class of the style sheet: s0, s1, ... for series, o-<outcome> for outcomes."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its words."""

    title: str
    svg: Markup
    legend: tuple[Key, ...]
    note: str = ""


def vertical_scale(values: Iterable[float], at_least: Sequence[float] = ()) -> tuple[Scale, list[float]]:
    """Of the finite values, and of what must be seen in any case."""
    seen = [*finite(values), *at_least]
    ticks = round_ticks(min(seen), max(seen)) if seen else [0.0, 1.0]
    return Scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP), ticks


def horizontal_scale(values: Sequence[float]) -> tuple[Scale, list[float]]:
    """Steps: whole numbers, with ticks inside the range alone."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    high = max(high, low + 1)
    ticks = [tick for tick in round_ticks(low, high, 6) if low <= tick <= high and tick == int(tick)]
    return Scale(low, high, LEFT + 6, WIDTH - RIGHT - 4), ticks


def drawing(title: str, parts: Iterable[Markup]) -> Markup:
    """The whole picture; `title` is what a screen reader says."""
    opening = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(WIDTH, HEIGHT, title)
    return opening + Markup("").join(parts) + Markup("</svg>")


def grid(y: Scale, ticks: Sequence[float], label: Label) -> Markup:
    """Horizontal lines with their values."""
    line = Markup('<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>')
    text = Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>')
    return Markup("").join(
        line.format(LEFT, WIDTH - RIGHT, y(tick)) + text.format(LEFT - 6, y(tick) + 4, label(tick)) for tick in ticks
    )


def below(places: Iterable[tuple[float, str]]) -> Markup:
    """Words under the horizontal axis, at pixels."""
    text = Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>')
    return Markup("").join(text.format(x, HEIGHT - BOTTOM + 18, word) for x, word in places)


def dot(x: float, y: float, style: str, said: str, radius: float = 3.5) -> Markup:
    """A point that tells its value to a pointer."""
    return Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>').format(
        style, x, y, radius, said
    )


def path(points: Sequence[tuple[float, float]], style: str) -> Markup:
    """A line through pixels."""
    places = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return Markup('<path class="line {}" d="M{}"/>').format(style, places) if points else Markup("")
