"""sweyard stop and sweyard resume."""

from pathlib import Path

import typer

from sweyard_api.constants import RUN_FILE
from sweyard_api.program import call
from sweyard_cli.commands.options import (
    AllowUnisolatedOption,
    DatasetsOption,
    NamespaceOption,
    RunArgument,
    RunDirectoryOption,
    demand_one_run,
)
from sweyard_cli.documents import read_run
from sweyard_cli.errors import UserError


def stop(
    name: RunArgument = None,
    namespace: NamespaceOption = None,
    output: RunDirectoryOption = None,
) -> None:
    """Stop a run after a checkpoint, so that it can go on from there.

    On a cluster all but the volume and the image cache is released.
    """
    demand_one_run(name, output, namespace)
    typer.echo(_stop_here(output) if output is not None else _stop_on_cluster(str(name), namespace))


def resume(
    name: RunArgument = None,
    namespace: NamespaceOption = None,
    output: RunDirectoryOption = None,
    datasets: DatasetsOption = None,
    allow_unisolated: AllowUnisolatedOption = False,
) -> None:
    """Go on with a stopped run from its last checkpoint, and follow it where it runs on this machine."""
    demand_one_run(name, output, namespace)
    if output is not None:
        raise typer.Exit(_go_on_here(output, datasets or [], allow_unisolated=allow_unisolated))
    if datasets or allow_unisolated:
        raise UserError("--datasets and --allow-unisolated are of runs on this machine: give --output DIR")
    typer.echo(_go_on_on_cluster(str(name), namespace))


def _go_on_here(output: Path, datasets: list[Path], *, allow_unisolated: bool) -> int:
    from sweyard_cli.asked_run import AskedRun
    from sweyard_cli.commands.run import run_here

    file = output / RUN_FILE
    if not file.is_file():
        again = call("run", "-f", "FILE", "--output", output)
        raise UserError(
            f"{output} holds no {RUN_FILE}, which a run of this machine keeps there; with its file: {again}"
        )
    asked = AskedRun(read_run(file), file, is_changed=False, output=output, told=())
    return run_here(asked, output, datasets, watch=True, allow_unisolated=allow_unisolated)


def _go_on_on_cluster(name: str, namespace: str | None) -> str:
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.cluster.suspension import set_suspended

    connection = connect(namespace)
    is_news = set_suspended(connection, name, suspended=False)
    where = f"TrainingRun {connection.namespace}/{name}"
    return f"{where} goes on from its last checkpoint" if is_news else f"{where} was not stopped"


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

    from sweyard_cli.local.holder import find_holder
    from sweyard_cli.local.lock import is_locked

    holder = find_holder(output)
    if holder is None:
        if is_locked(output):
            raise UserError(f"a process of another account, or machine, works on {output}: stop it from there")
        raise UserError(f"no process works on {output}")
    os.kill(holder, signal.SIGTERM)
    return f"process {holder} takes a checkpoint and stops; follow it: {call('watch', '--output', output)}"
