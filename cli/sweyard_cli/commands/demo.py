"""sweyard demo."""

import shlex
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sweyard_api.program import call
from sweyard_cli.console import make_console
from sweyard_cli.documents import read_run
from sweyard_cli.run_directory import run_directory

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
    output: Annotated[
        Path, typer.Option("--output", "-d", metavar="DIR", help="Where the run is kept.", parser=run_directory)
    ] = OUTPUT,
) -> None:
    """Train a small model to repair code, and show what it learned. Run it in the checkout's root."""
    console = make_console()
    document = read_run(file)
    if cluster is not Cluster.NONE:
        check_choice(cluster, output, registry)
    if cluster is Cluster.NONE:
        raise typer.Exit(_here(document, file, output, console))
    raise typer.Exit(_on_cluster(cluster, file, output, registry, console))


def make_dataset(cluster: Cluster, go_on: str, console: Console) -> Path:
    """Its folder, with what is to be expected said before. Raises UserError."""
    from sweyard_cli.demo.dataset import make_demo_dataset

    console.print(f"[bold]A small model learns to repair Python code[/bold]: {TIMES[cluster]}, on two cores.")
    console.print("[bold]data set[/bold]: bugs put into real packages, each proved by the packages' own tests")
    return make_demo_dataset(go_on)


def demo_command(cluster: Cluster, file: Path, output: Path, registry: str) -> str:
    """What begins this demo again: make's words where they can say it."""
    if (file, output) == (EXAMPLE, OUTPUT):
        words = ["make demo", *([f"CLUSTER={cluster}"] if cluster is not Cluster.NONE else [])]
        return " ".join([*words, *([f"REGISTRY={shlex.quote(registry)}"] if registry else [])])
    options = ["--cluster", cluster.value, "--file", str(file), "--output", str(output)]
    return call("demo", *options, *(["--registry", registry] if registry else []))


def check_choice(cluster: Cluster, output: Path, registry: str) -> None:
    """Before anything is made or moved. Raises UserError saying why this choice cannot work here and what would."""
    from sweyard_cli.demo.cluster_targets import make_target

    make_target(cluster.value, CHECKOUT.resolve(), output.parent, registry).check()


def _here(document: dict[str, Any], file: Path, output: Path, console: Console) -> int:
    from sweyard_cli.demo.local import run_local_demo
    from sweyard_cli.demo.output import Claim

    with Claim(output) as claim:
        make_dataset(Cluster.NONE, demo_command(Cluster.NONE, file, output, ""), console)
        tell_kept(claim.set_aside(datetime.now()), console)
    console.print("[bold]training[/bold]")
    return run_local_demo(document, file, output, console)  # the trainer takes the lock itself


def _on_cluster(cluster: Cluster, file: Path, output: Path, registry: str, console: Console) -> int:
    from sweyard_cli.demo.cluster import run_cluster_demo
    from sweyard_cli.demo.output import Claim
    from sweyard_cli.ending import show_ending
    from sweyard_cli.results.files import write_config

    with Claim(output) as claim:
        dataset = make_dataset(cluster, demo_command(cluster, file, output, registry), console)

        def begin() -> None:
            tell_kept(claim.set_aside(datetime.now()), console)

        checkout = CHECKOUT.resolve()
        final, looks = run_cluster_demo(cluster.value, file, dataset, output, checkout, registry, console, begin)
        if final.phase != "Succeeded":
            console.print(f"{final.phase}: {final.message}", style="bold", markup=False)
            for command, meaning in looks:
                console.print(f"{command}   # {meaning}", markup=False, soft_wrap=True)
            return 1
        write_config(output, read_run(output / "trainingrun.yaml"))
        show_ending(output, console, [*looks, *REMOVAL[cluster]])
    return 0


def tell_kept(kept: Path | None, console: Console) -> None:
    """Where an earlier demo went, if there was one."""
    if kept is not None:
        console.print(f"an earlier demo is kept in {kept}", markup=False)
