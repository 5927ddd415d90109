"""sweyard demo."""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sweyard_cli.console import make_console
from sweyard_cli.documents import read_run

CHECKOUT = Path()
EXAMPLE = Path("examples/tiny/trainingrun.yaml")
OUTPUT = Path("runs/tiny")


class Cluster(StrEnum):
    """Where the demo runs."""

    NONE = "none"
    NATIVE = "native"
    KIND = "kind"
    EXISTING = "existing"


TIMES = {
    Cluster.NONE: "4 to 6 minutes",
    Cluster.NATIVE: "about 10 minutes, after 15 of building a Kubernetes the first time",
    Cluster.KIND: "about 10 minutes, after 10 of building images the first time",
    Cluster.EXISTING: "about 10 minutes, after 10 of building images the first time",
}
"""On two cores."""
REMOVAL = {
    Cluster.NATIVE: [("make clean-cluster", "remove the cluster")],
    Cluster.KIND: [("kind delete cluster --name sweyard-demo", "remove the cluster")],
    Cluster.EXISTING: [("kubectl delete namespace sweyard-demo", "remove the run and its data")],
}


def demo(
    cluster: Annotated[
        Cluster,
        typer.Option(help="`none` needs neither root nor Docker; `native` makes a Kubernetes here (Linux, root)."),
    ] = Cluster.NONE,
    registry: Annotated[str, typer.Option(help="Where `existing` pulls images from.", show_default=False)] = "",
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="The TrainingRun.")] = EXAMPLE,
    output: Annotated[Path, typer.Option("--output", "-d", metavar="DIR", help="Where the run is kept.")] = OUTPUT,
) -> None:
    """Train a small model to repair code, and show what it learned. Run it in the checkout's root."""
    from sweyard_cli.demo.dataset import make_demo_dataset
    from sweyard_cli.demo.output import set_aside

    console = make_console()
    document = read_run(file)
    if cluster is not Cluster.NONE:
        check_choice(cluster, output, registry)
    kept = set_aside(output, datetime.now())
    console.print(f"[bold]A small model learns to repair Python code[/bold]: {TIMES[cluster]}, on two cores.")
    if kept is not None:
        console.print(f"an earlier demo is kept in {kept}", markup=False)
    console.print("[bold]data set[/bold]: bugs put into real packages, each proved by the packages' own tests")
    dataset = make_demo_dataset()
    if cluster is Cluster.NONE:
        from sweyard_cli.demo.local import run_local_demo

        console.print(f"[bold]training[/bold]: output in {output}")
        raise typer.Exit(run_local_demo(document, file, output, console))
    raise typer.Exit(_on_cluster(cluster, file, dataset, output, registry, console))


def check_choice(cluster: Cluster, output: Path, registry: str) -> None:
    """Before anything is made or moved. Raises UserError saying why this choice cannot work here and what would."""
    from sweyard_cli.demo.cluster_targets import make_target

    make_target(cluster.value, CHECKOUT.resolve(), output.parent, registry).check()


def _on_cluster(cluster: Cluster, file: Path, dataset: Path, output: Path, registry: str, console: Console) -> int:
    from sweyard_cli.demo.cluster import run_cluster_demo
    from sweyard_cli.ending import show_ending
    from sweyard_cli.results.files import write_config

    final, look = run_cluster_demo(cluster.value, file, dataset, output, CHECKOUT.resolve(), registry, console)
    if final.phase != "Succeeded":
        console.print(f"{final.phase}: {final.message}", style="bold", markup=False)
        console.print(f"to look at it: {look}", markup=False)
        return 1
    write_config(output, read_run(output / "trainingrun.yaml"))
    show_ending(output, console, [(look, "what is on the cluster"), *REMOVAL[cluster]])
    return 0
