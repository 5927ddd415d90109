"""The curve as a PNG: held-out tasks solved, and the reward of each step."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweyard_cli.report.charts import SMOOTHED_STEPS
from sweyard_cli.report.scale import is_drawable, moving_mean
from sweyard_cli.results.run_results import RunResults
from sweyard_cli.whole_file import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#1f6feb", "#bc5b00", "#8250df", "#0a7b83")
INK, FAINT, GRID = "#1b1f24", "#59636e", "#e3e7ec"
SIZE_INCHES = (11.0, 4.2)
DOTS_PER_INCH = 144


def draw_curve(results: RunResults, path: Path) -> None:
    """Draw what the run has figures for; a picture that is there stays until the new one is whole."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    held_out, reward = figure.subplots(1, 2)
    _draw_held_out(held_out, results)
    _draw_reward(reward, results)
    for axes in (held_out, reward):
        _tidy(axes)
    with whole_file(path) as file:
        figure.savefig(file.buffer, format="png", dpi=DOTS_PER_INCH, facecolor="white")


def _draw_held_out(axes: "Axes", results: RunResults) -> None:
    axes.set_title("Held-out tasks solved, with 95 % intervals")
    evaluations = results.evaluations
    names = list(dict.fromkeys(figure.source for evaluation in evaluations for figure in evaluation.sources))
    for index, name in enumerate(names):
        shift = (index - (len(names) - 1) / 2) * 0.08
        found = [
            (place + shift, figure)
            for place, evaluation in enumerate(evaluations)
            for figure in evaluation.sources
            if figure.source == name and figure.attempts
        ]
        shares = [100 * figure.solved_fraction for _, figure in found]
        # An end may be a rounding error on the wrong side.
        down = [max(0.0, share - 100 * figure.low) for share, (_, figure) in zip(shares, found, strict=True)]
        up = [max(0.0, 100 * figure.high - share) for share, (_, figure) in zip(shares, found, strict=True)]
        places = [place for place, _ in found]
        colour = COLOURS[index % len(COLOURS)]
        axes.errorbar(
            places,
            shares,
            yerr=(down, up),
            color=colour,
            marker="o",
            linewidth=1.5,
            linestyle=(0, (2, 3)),
            markersize=7,
            elinewidth=2,
            label=name,
        )
        # Beside the point, on the side where no other source's whisker is.
        beside = (-8, "right") if index == 0 and len(names) > 1 else (8, "left")
        for place, share in zip(places, shares, strict=True):
            axes.annotate(
                f"{share:.3g} %",
                (place, share),
                (beside[0], 0),
                textcoords="offset points",
                ha=beside[1],
                va="center",
                color=colour,
                fontsize=9.5,
                zorder=4,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},  # the dashes end before it
            )
    axes.set_xticks(range(len(evaluations)), [evaluation.title for evaluation in evaluations])
    axes.set_xlim(-0.4, max(len(evaluations), 1) - 0.4)
    axes.set_ylim(bottom=-1.5)
    axes.set_ylabel("% of tasks")
    if names:
        axes.legend(frameon=False, loc="upper left")


def _draw_reward(axes: "Axes", results: RunResults) -> None:
    axes.set_title("Reward, mean of a step's attempts")
    points = results.series("rollout/reward_mean")
    finite = [(step, value) for step, value in points if is_drawable(value)]
    axes.plot(*_columns(finite), ".", color=COLOURS[0], alpha=0.35, markersize=9)
    axes.plot(*_columns(moving_mean(points, SMOOTHED_STEPS)), color=COLOURS[0], linewidth=2.5)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel(f"training step (line: mean of {SMOOTHED_STEPS} steps)")
    if not finite:
        words = "no training step yet" if results.trains else "nothing was trained"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", color=FAINT)
    axes.set_ylim(bottom=min(0.0, *(value for _, value in finite)) if finite else 0.0)


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _tidy(axes: Any) -> None:
    axes.title.set(fontsize=11, fontweight="bold", color=INK)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(colors=FAINT, length=0)
