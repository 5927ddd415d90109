"""sweyard stop and sweyard resume."""

from pathlib import Path
from typing import Annotated

import typer

from sweyard_api.program import call
from sweyard_cli.commands.options import NamespaceOption, RunArgument, RunDirectoryOption, checked_name, demand_one_run
from sweyard_cli.errors import UserError


def stop(
    name: RunArgument = None,
    namespace: NamespaceOption = None,
    output: RunDirectoryOption = None,
) -> None:
    """Stop a run after a checkpoint, so that it can go on from there.

    On a cluster everything but the volume is released.
    """
    demand_one_run(name, output)
    typer.echo(_stop_here(output) if output is not None else _stop_on_cluster(str(name), namespace))


def resume(
    name: Annotated[str, typer.Argument(help="A run on the cluster.", show_default=False, callback=checked_name)],
    namespace: NamespaceOption = None,
) -> None:
    """Go on with a stopped run on the cluster, from its last checkpoint. (On this machine `sweyard run` does.)"""
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.cluster.suspension import set_suspended

    connection = connect(namespace)
    is_news = set_suspended(connection, name, suspended=False)
    where = f"TrainingRun {connection.namespace}/{name}"
    typer.echo(f"{where} goes on from its last checkpoint" if is_news else f"{where} was not stopped")


def _stop_on_cluster(name: str, namespace: str | None) -> str:
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.cluster.suspension import set_suspended

    connection = connect(namespace)
    is_news = set_suspended(connection, name, suspended=True)
    again = call("resume", name, "-n", connection.namespace)
    where = f"TrainingRun {connection.namespace}/{name}"
    if not is_news:
        return f"{where} was stopped before; to go on: {again}"
    return f"{where} takes a checkpoint and stops; to go on: {again}"


def _stop_here(output: Path) -> str:
    import os
    import signal

    from sweyard_cli.local.holder import LOCKS, find_holder

    holder = find_holder(output, LOCKS.read_text(encoding="utf-8"))
    if holder is None:
        raise UserError(f"no process works on {output}")
    os.kill(holder, signal.SIGTERM)
    return f"process {holder} takes a checkpoint and stops; follow it: {call('watch', '--output', output)}"
