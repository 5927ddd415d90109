"""sweyard status."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sweyard_api.program import program
from sweyard_cli.commands.options import NamespaceOption, checked_name
from sweyard_cli.console import make_console
from sweyard_cli.errors import UserError
from sweyard_cli.figures import duration
from sweyard_cli.output import Format, OutputOption, print_for_machines

EVALUATION = "eval/"
"""Figures of evaluations begin with it."""
_WIDE = 120
_WHERE = "namespace"
_NARROW = ("name", "phase", "step", "solved", "left", "reason")


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run in the list. The names are those of `-o json` and `-o yaml`."""

    namespace: str
    name: str
    phase: str
    step: int
    total_steps: int
    reward: float | None
    """Mean of the last step."""
    solved: float | None
    """Fraction of the last step's attempts."""
    held_out: dict[str, float]
    """What the last evaluation solved, by source; with several attempts a task also its best pass@k and best@k."""
    remaining_seconds: int | None
    restarts: int
    reason: str
    """What it waits for, or why it failed."""


def status(
    name: Annotated[
        str | None, typer.Argument(help="Only this run.", show_default=False, callback=checked_name)
    ] = None,
    namespace: NamespaceOption = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Runs of all namespaces.")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the runs on the cluster: phase, step, reward, and what they wait for."""
    from kubernetes import client

    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.cluster.elsewhere import told_elsewhere
    from sweyard_cli.cluster.runs import list_runs

    connection = connect(namespace)
    lines = [line_of(run) for run in list_runs(connection, everywhere=everywhere)]
    lines = [line for line in lines if name in (None, line.name)]
    where = "any namespace" if everywhere else f"namespace {connection.namespace}"
    if name is not None and not lines:
        others = told_elsewhere(client.CustomObjectsApi(connection.api_client), name)
        raise UserError(f"there is no TrainingRun {name} in {where}; {others}")
    if output is not Format.TABLE:
        names = [f"{line.namespace}/{line.name}" if everywhere else line.name for line in lines]
        print_for_machines(output, [asdict(line) for line in lines], names)
    elif lines:
        console = make_console()
        console.print(table_of(lines, console.width))
    else:
        typer.echo(f"no TrainingRuns in {where}; start one: {program()} run -f FILE --cluster")


def line_of(run: Mapping[str, Any]) -> RunLine:
    """Pure: from a TrainingRun as the API server has it."""
    from sweyard_cli.view.cluster_source import snapshot_of_run

    snapshot = snapshot_of_run(run, None)
    return RunLine(
        namespace=str(run["metadata"].get("namespace", "")),
        name=snapshot.name,
        phase=snapshot.phase,
        step=snapshot.step,
        total_steps=snapshot.total_steps,
        reward=snapshot.metrics.get("rewardMean"),
        solved=snapshot.metrics.get("solvedFraction"),
        held_out={
            name.removeprefix(EVALUATION): value
            for name, value in snapshot.metrics.items()
            if name.startswith(EVALUATION)
        },
        remaining_seconds=snapshot.remaining_seconds,
        restarts=int((run.get("status") or {}).get("restarts", 0)),
        reason=snapshot.message,
    )


def table_of(lines: Sequence[RunLine], width: int) -> Table:
    """For people, in so many columns of a terminal: a narrow one has room for what is asked for most."""
    cells = [_cells_of(line) for line in lines]
    one_namespace = len({line.namespace for line in lines}) < 2
    shown = [name for name in cells[0] if width >= _WIDE or name in _NARROW or (name, one_namespace) == (_WHERE, False)]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in shown:
        table.add_column(column, no_wrap=column != "reason")
    for row in cells:
        table.add_row(*(Text(row[column]) for column in shown))
    return table


def _cells_of(line: RunLine) -> dict[str, str]:
    """By column, in their order."""
    left = line.remaining_seconds
    return {
        _WHERE: line.namespace,
        "name": line.name,
        "phase": line.phase,
        "step": f"{line.step} of {line.total_steps}" if line.total_steps else "-",
        "reward": "-" if line.reward is None else f"{line.reward:.3f}",
        "solved": "-" if line.solved is None else f"{line.solved:.1%}",
        "held-out": ", ".join(f"{name} {value:.1%}" for name, value in line.held_out.items()) or "-",
        "left": "-" if left is None else duration(round(left)),
        "restarts": str(line.restarts),
        "reason": line.reason,
    }
