"""How the attempts of each step ended: bars of equal height, stacked by outcome."""

from collections import Counter
from collections.abc import Mapping

from markupsafe import Markup

from sweyard_cli.figures import percent, plural
from sweyard_cli.report.scale import Scale
from sweyard_cli.report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, Key, below, drawing, grid

ORDER = ("solved", "unsolved", "truncated", "max_turns", "agent_timeout", "agent_error", "env_infra", "eval_infra")
"""From the bottom up."""
MOST_WORDS = 8


def outcome_style(outcome: str) -> str:
    """Class of the style sheet; what is not known here is grey."""
    return f"o-{outcome}" if outcome in ORDER else "o-other"


def outcome_name(outcome: str) -> str:
    """For people."""
    return {"env_infra": "sandbox failed", "eval_infra": "grading failed"}.get(outcome, outcome.replace("_", " "))


def outcome_chart(outcomes: Mapping[int, Counter[str]]) -> Chart | None:
    """None without steps."""
    if not outcomes:
        return None
    present = set().union(*outcomes.values())
    order = [*(outcome for outcome in ORDER if outcome in present), *sorted(present - set(ORDER))]
    y = Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    room = (WIDTH - RIGHT - LEFT) / len(outcomes)
    parts = [grid(y, [0.0, 0.25, 0.5, 0.75, 1.0], percent)]
    for index, (step, counts) in enumerate(outcomes.items()):
        parts += _bar(LEFT + room * index, room, y, step, counts, order)
    every = -(-len(outcomes) // MOST_WORDS)
    words = [(LEFT + room * (i + 0.5), str(step)) for i, step in enumerate(outcomes) if i % every == 0]
    keys = tuple(Key(outcome_name(outcome), outcome_style(outcome)) for outcome in order)
    title = "How attempts ended"
    return Chart(title, drawing(f"{title}, by step", [*map(Markup, parts), below(words)]), keys)


def _bar(left: float, room: float, y: Scale, step: int, counts: Counter[str], order: list[str]) -> list[Markup]:
    box = Markup(
        '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>step {}: {}, {}</title></rect>'
    )
    below_it, total, parts = 0, sum(counts.values()), []
    gap = min(2.0, room * 0.15)
    for outcome in order:
        if not counts[outcome]:
            continue
        top, bottom = y((below_it + counts[outcome]) / total), y(below_it / total)
        said = plural(counts[outcome], "attempt")
        place = (left + gap / 2, top, room - gap, bottom - top)
        parts.append(box.format(outcome_style(outcome), *place, step, outcome_name(outcome), said))
        below_it += counts[outcome]
    return parts
