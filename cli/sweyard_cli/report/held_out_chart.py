"""Held-out tasks solved at each evaluation, with intervals: one place an evaluation, one colour a source."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from sweyard_cli.figures import percent
from sweyard_cli.report.scale import Scale
from sweyard_cli.report.svg import LEFT, RIGHT, WIDTH, Chart, Key, below, dot, drawing, grid, path, vertical_scale
from sweyard_cli.results.evaluations import EvaluationFigures, SourceFigure

APART = 14
"""Pixels between sources at one place, so that their whiskers can be told apart."""
MOST_WORDS = 4


def held_out_chart(evaluations: Sequence[EvaluationFigures]) -> Chart | None:
    """None without any evaluation."""
    names = list(dict.fromkeys(figure.source for evaluation in evaluations for figure in evaluation.sources))
    if not names:
        return None
    figures = [figure for evaluation in evaluations for figure in evaluation.sources]
    y, ticks = vertical_scale([figure.high for figure in figures if figure.attempts], (0.0,))
    places = _places(len(evaluations))
    parts = [grid(y, ticks, percent), below(_words(evaluations, places))]
    for index, name in enumerate(names):
        shift = (index - (len(names) - 1) / 2) * APART
        found = [
            (place + shift, figure, evaluation.title)
            for place, evaluation in zip(places, evaluations, strict=True)
            for figure in evaluation.sources
            if figure.source == name and figure.attempts
        ]
        parts.append(path([(x, y(figure.solved_fraction)) for x, figure, _ in found], f"s{index} faint"))
        parts += [_whisker(x, figure, title, y, f"s{index}") for x, figure, title in found]
    title = "Held-out tasks solved"
    spoken = f"{title}, by evaluation; the table above has the same figures"
    keys = tuple(Key(name, f"s{index}") for index, name in enumerate(names))
    return Chart(title, drawing(spoken, map(Markup, parts)), keys, "Whiskers: 95 % intervals.")


def _places(count: int) -> list[float]:
    """Pixels of the evaluations, evenly."""
    room = (WIDTH - RIGHT - LEFT) / count
    return [LEFT + room * (index + 0.5) for index in range(count)]


def _words(evaluations: Sequence[EvaluationFigures], places: Sequence[float]) -> list[tuple[float, str]]:
    """Of many evaluations the first and the last are named."""
    words = [(place, evaluation.title) for place, evaluation in zip(places, evaluations, strict=True)]
    return words if len(words) <= MOST_WORDS else [words[0], words[-1]]


def _whisker(x: float, figure: SourceFigure, title: str, y: Scale, style: str) -> Markup:
    line = Markup('<line class="whisker {0}" x1="{1:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{3:.1f}"/>')
    said = f"{figure.source}, {title}: {figure.solved} of {figure.attempts}, {percent(figure.solved_fraction)}"
    middle = figure.solved_fraction
    assert not math.isnan(middle), "only sources with attempts are drawn"
    return line.format(style, x, y(figure.low), y(figure.high)) + dot(x, y(middle), style, said, 4.5)
