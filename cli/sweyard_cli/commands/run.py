"""sweyard run."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from sweyard_api.cache_root import dataset_directories
from sweyard_api.program import call
from sweyard_api.resolve import resolve
from sweyard_cli.asked_run import AskedRun, ask
from sweyard_cli.commands.options import AllowUnisolatedOption, DatasetsOption, FileOption, NamespaceOption
from sweyard_cli.console import make_console
from sweyard_cli.documents import read_run
from sweyard_cli.errors import UserError
from sweyard_cli.run_directory import run_directory


def run(
    file: FileOption,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-d",
            metavar="DIR",
            help="Where the run is kept. Default: runs/NAME.",
            show_default=False,
            parser=run_directory,
        ),
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option(
            metavar="PHASE",
            help="Begin a preset on few tasks, as a run NAME-PHASE. Of qwen3-8b-minimal: one, few (8), subset (all).",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="Apply it to the kubeconfig's cluster instead.")] = False,
    namespace: NamespaceOption = None,
    watch: Annotated[bool, typer.Option(help="Follow it to its end; without, only start it.")] = True,
    datasets: DatasetsOption = None,
    allow_unisolated: AllowUnisolatedOption = False,
) -> None:
    """Run the TrainingRun in FILE on this machine, or on a cluster, and follow it.

    On this machine it goes on where DIR left off. Interrupting takes a checkpoint first.

    Presets of known recipes read the variables of these: swepdb-* SWE_PDB_MODEL_PATH and SWE_PDB_CHECKPOINT_BASE;
    qwen3-coder-30b-django VLLM_URL, MODEL, NUM_ROLLOUTS, ROLLOUT_BATCH_SIZE, N_SAMPLES and OUTPUT_DIR. They count more
    than FILE.
    """
    asked = ask(read_run(file), file, phase, os.environ)
    for change in asked.told:
        make_console().print(change, markup=False)
    if not cluster:
        output = output or asked.output
        raise typer.Exit(run_here(asked, output, datasets or [], watch=watch, allow_unisolated=allow_unisolated))
    if output or datasets or allow_unisolated:
        raise UserError("--output, --datasets and --allow-unisolated are of runs on this machine: leave out --cluster")
    _run_on_cluster(asked.document, namespace, watch=watch)


def run_here(asked: AskedRun, output: Path, datasets: list[Path], *, watch: bool, allow_unisolated: bool) -> int:
    """Its exit code; with `watch` at its end."""
    from sweyard_cli.local.cluster_next import cluster_commands
    from sweyard_cli.local.finished import is_finished, show_finished
    from sweyard_cli.local.run import run_locally
    from sweyard_cli.local.trainer_process import TrainerProcess, trainer_command

    console, document = make_console(), asked.document
    if is_finished(document, output):
        show_finished(asked.kept(output), output, console)
        return 0
    file, given = asked.kept(output), asked.handed_over
    command = trainer_command(None if given else file, output, datasets, allow_unisolated=allow_unisolated)
    after = [
        (call("ui", output), "its figures and attempts in a browser"),
        *cluster_commands(file, resolve(document["spec"]), (*datasets, *dataset_directories(os.environ))),
    ]
    process = TrainerProcess(command, output, given)
    if not watch:
        console.print(f"started as process {process.popen.pid}; to follow it: {call('watch', '--output', output)}")
        return 0
    return run_locally(process, str(document["metadata"]["name"]), file, output, console, after)


def _run_on_cluster(document: dict[str, Any], namespace: str | None, *, watch: bool) -> None:
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.cluster.runs import apply_run, follow_run

    connection = connect(choose_namespace(document, namespace))
    console = make_console()
    name = str(document["metadata"]["name"])
    console.print(apply_run(connection, document), markup=False)
    if watch:
        raise typer.Exit(follow_run(connection, name, console))
    console.print(f"to follow it: {call('watch', name, '-n', connection.namespace)}")


def choose_namespace(document: dict[str, Any], asked: str | None) -> str | None:
    """Of the file or of the command line. Raises UserError if they differ."""
    written = document["metadata"].get("namespace")
    if written and asked and written != asked:
        raise UserError(f"metadata.namespace is {written!r} in the file and {asked!r} on the command line: choose one")
    return written or asked
