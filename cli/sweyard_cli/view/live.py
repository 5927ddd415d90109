"""Following a run: a redrawn panel on a terminal, a line for each change in a pipe."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweyard_cli.figures import duration
from sweyard_cli.view.snapshot import STARTING, RunSnapshot, RunSource

QUIET_SECONDS = 15.0
"""Between lines of a log that tell nothing but counts; first and doubling between those of a start without news."""
SPARKS = "▁▂▃▄▅▆▇█"


def follow(
    source: RunSource,
    console: Console,
    *,
    poll_seconds: float,
    sleep: Callable[[float], None],
    monotonic: Callable[[], float] = time.monotonic,
) -> RunSnapshot:
    """Show the run until it ends; returns the last snapshot. Interrupting only stops looking."""
    show = _follow_panel if console.is_terminal else _follow_lines
    return show(_snapshots(source, poll_seconds, sleep, monotonic), console)


def _snapshots(
    source: RunSource, poll_seconds: float, sleep: Callable[[float], None], monotonic: Callable[[], float]
) -> Iterator[tuple[float, RunSnapshot]]:
    """(seconds since the beginning, state), the final one included."""
    started = monotonic()
    while True:
        snapshot = source.snapshot()
        yield monotonic() - started, snapshot
        if snapshot.is_finished:
            return
        sleep(poll_seconds)


def _follow_panel(snapshots: Iterator[tuple[float, RunSnapshot]], console: Console) -> RunSnapshot:
    rewards: list[float] = []
    with Live(console=console, auto_refresh=False, redirect_stderr=False) as live:
        for elapsed, last in snapshots:
            _remember_reward(rewards, last)
            live.update(render_panel(last, rewards, elapsed), refresh=True)
    return last


def _follow_lines(snapshots: Iterator[tuple[float, RunSnapshot]], console: Console) -> RunSnapshot:
    """A line for each change of stage, step or reward; of what only counts on, or is yet to begin, one now and then."""
    told, told_stage, told_at, quiet = "", "", 0.0, QUIET_SECONDS
    for elapsed, last in snapshots:
        line, stage = render_line(replace(last, remaining_seconds=None)), stage_of(last)
        is_due = elapsed - told_at >= quiet
        if stage != told_stage or (is_due and (line != told or last.phase == STARTING)):
            console.print(f"[{told_seconds(elapsed)}] {render_line(last)}", markup=False)
            quiet = 2 * quiet if line == told else QUIET_SECONDS
            told, told_stage, told_at = line, stage, elapsed
    return last


def stage_of(snapshot: RunSnapshot) -> str:
    """What is news of a run at once: not its counts of sandboxes, attempts or time."""
    message = snapshot.message
    if message.startswith(("step ", "evaluation", "warm-up")):
        message = message.partition(":")[0]
    shown = replace(snapshot, sandboxes=None, remaining_seconds=None, message=re.sub(r"\d+", "N", message))
    return render_line(shown)


def render_line(snapshot: RunSnapshot) -> str:
    """One line for logs and pipes."""
    parts = [snapshot.phase]
    waiting = [f"{stage}={state}" for stage, state in snapshot.stages.items() if state != "True"]
    if waiting:
        parts.append(" ".join(waiting))
    if snapshot.sandboxes is not None:
        s = snapshot.sandboxes
        parts.append(f"sandboxes {s.ready} ready {s.claimed} claimed {s.starting} starting")
    if snapshot.total_steps:
        parts.append(f"step {snapshot.step}/{snapshot.total_steps}")
    parts += [f"{label} {value}" for label, value in headline_metrics(snapshot)]
    if snapshot.left_seconds is not None:
        parts.append(f"{told_remaining(snapshot.left_seconds)} left")
    if snapshot.message:
        parts.append(snapshot.message)
    return " · ".join(parts)


def render_panel(snapshot: RunSnapshot, rewards: list[float], elapsed_seconds: float) -> RenderableType:
    """The panel that is redrawn in place."""
    facts = Table.grid(padding=(0, 2))
    for stage, state in snapshot.stages.items():
        mark = Text("✓ ready", style="green") if state == "True" else Text(f"… {state}", style="yellow")
        facts.add_row(stage.removesuffix("Ready").lower(), mark)
    if snapshot.sandboxes is not None:
        s = snapshot.sandboxes
        facts.add_row(
            "sandbox pods", f"{s.ready} ready  {s.claimed} claimed  {s.starting} starting  {s.failed} replaced"
        )
    if snapshot.total_steps:
        facts.add_row("step", f"{snapshot.step} of {snapshot.total_steps}")
    for label, value in headline_metrics(snapshot):
        facts.add_row(label, value)
    if len(rewards) > 1:
        facts.add_row("reward so far", Text(sparkline(rewards), style="cyan"))
    left = "" if snapshot.left_seconds is None else f", {told_remaining(snapshot.left_seconds)} left"
    facts.add_row("time", f"{told_seconds(elapsed_seconds)}{left}")
    bar = Table.grid()  # a row of its own: the bar does not end its line
    bar.add_row(ProgressBar(total=100, completed=snapshot.progress_percentage, width=60))
    style = {"Succeeded": "green", "Failed": "red"}.get(snapshot.phase, "blue")
    return Panel(
        Group(bar, facts, Text(snapshot.message, style="dim")),
        title=f"{snapshot.name}: {snapshot.phase}",
        border_style=style,
    )


def headline_metrics(snapshot: RunSnapshot) -> list[tuple[str, str]]:
    """The few figures people follow, where they exist."""
    metrics = snapshot.metrics
    shown = []
    if "rewardMean" in metrics:
        shown.append(("reward", f"{metrics['rewardMean']:.3f}"))
    if "solvedFraction" in metrics:
        shown.append(("solved", f"{metrics['solvedFraction']:.1%}"))
    shown += [
        (f"{name.removeprefix('eval/')} tasks solved", f"{v:.1%}")
        for name, v in metrics.items()
        if name.startswith("eval/")
    ]
    return shown


def sparkline(values: list[float], width: int = 60) -> str:
    """The last `width` values as block characters."""
    values = values[-width:]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(SPARKS[round((v - low) / span * (len(SPARKS) - 1))] for v in values)


def told_seconds(seconds: float) -> str:
    """Whole seconds: what moves every second need not be finer."""
    return duration(round(seconds))


def told_remaining(seconds: float) -> str:
    """As fine as an estimate deserves: about 3 min, about 40 s."""
    unit = 60 if seconds >= 120 else 10
    return f"about {duration(unit * max(1, round(seconds / unit))).removesuffix(' 00 s')}"


def _remember_reward(rewards: list[float], snapshot: RunSnapshot) -> None:
    while "rewardMean" in snapshot.metrics and len(rewards) < snapshot.step:
        rewards.append(snapshot.metrics["rewardMean"])
