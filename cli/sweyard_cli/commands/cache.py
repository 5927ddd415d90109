"""sweyard cache: what images on nodes will cost, and where they are."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweyard_cli.commands.options import FileOption, NamespaceOption, checked_name
from sweyard_cli.console import make_console
from sweyard_cli.documents import read_documents
from sweyard_cli.errors import UserError
from sweyard_cli.groups import FlagCommand, SentenceGroup
from sweyard_cli.output import Format, OutputOption, print_for_machines

if TYPE_CHECKING:
    from sweyard_cli.cache.docker_logins import DockerLogins
    from sweyard_cli.cache.on_nodes import Places
    from sweyard_cli.cache.wanted import ListImages, Wanted

app = typer.Typer(cls=SentenceGroup, no_args_is_help=True, help="Task images on nodes: plan, see and mirror them.")

InsecureOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST[:PORT]",
        help="To read images from one that speaks plain HTTP or has an unknown certificate; repeatable.",
        show_default=False,
    ),
]

_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(bit|B)(?:/s|ps)?", re.IGNORECASE)
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


@app.command(
    cls=FlagCommand,
    epilog="Example: sweyard cache plan -f run.yaml --nodes 100 --budget 500Gi --bandwidth 1Gbit --sizes",
)
def plan(
    file: FileOption,
    namespace: NamespaceOption = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Plan for so many equal nodes; default: the cluster's.", show_default=False
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Disk of each node for images; default: diskBudget.", show_default=False)
    ] = None,
    bandwidth: Annotated[str, typer.Option(help="Of each node, from the registry.")] = "1Gbit",
    sizes: Annotated[bool, typer.Option("--sizes", help="Ask the registries how large images are.")] = False,
    listing: Annotated[
        Path | None,
        typer.Option(
            "--list", metavar="FILE", help="Write images and sizes there, for imagesFrom.", show_default=False
        ),
    ] = None,
    disk_factor: Annotated[
        float,
        typer.Option(min=1.0, max=100.0, help="Bytes on disk for each compressed one: containerd keeps both forms."),
    ] = 3.0,
    insecure_registry: InsecureOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say what the images of the TrainingRun or ImageCache in FILE will cost, before anything is pulled."""
    from sweyard_cli.cache.forecast import forecast, list_sizes, plain_forecast
    from sweyard_cli.cache.forecast_view import show_forecast
    from sweyard_cli.cache.registry import Registry, read_layers
    from sweyard_cli.cache.registry_client import RegistryClient

    if output is Format.NAME:
        raise UserError("a plan has no names: take -o json or -o yaml")
    bits_per_second = parse_bandwidth(bandwidth)
    wanted = _wanted(file, namespace)
    places = _places(wanted, namespace, nodes, budget)
    client = RegistryClient(_logins(), frozenset(insecure_registry or ()), tries=2)
    layers, untold = read_layers(wanted.images, Registry(client)) if sizes else ({}, {})
    console = make_console()
    if listing is not None:
        listing.write_text(list_sizes(wanted.images, layers), encoding="utf-8")
    if untold:
        image, why = next(iter(untold.items()))
        text = f"no sizes of {len(untold):,} of {len(wanted.images):,} images, first {image}: {why}"
        make_console(stderr=True).print(text, markup=False)
    copies = len(places.nodes) if wanted.spec.copies == "all" else int(wanted.spec.copies)
    told = forecast(wanted.images, layers, places, copies, disk_bytes_per_compressed=disk_factor)
    if output is not Format.TABLE:
        print_for_machines(output, plain_forecast(told))
        return
    show_forecast(told, console, bits_per_second=bits_per_second, pulls_on_demand=copies == 0, asked_sizes=sizes)


@app.command(cls=FlagCommand, epilog="Example: sweyard cache show tiny")
def show(
    name: Annotated[
        str | None, typer.Argument(help="Only this ImageCache.", show_default=False, callback=checked_name)
    ] = None,
    namespace: NamespaceOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show which nodes hold which images, and what cannot be pulled and why."""
    from sweyard_cli.cache.cluster import list_holdings
    from sweyard_cli.cache.heat_map import show_holdings
    from sweyard_cli.cache.holdings import plain_holdings
    from sweyard_cli.cluster.connection import connect

    connection = connect(namespace)
    found = list_holdings(connection, name)
    if output is not Format.TABLE:
        told = [plain_holdings(connection.namespace, one) for one in found]
        print_for_machines(output, told, [one.name for one in found])
        return
    if not found:
        typer.echo(f"no ImageCaches in namespace {connection.namespace}")
    for holdings in found:
        show_holdings(holdings, make_console())


@app.command(cls=FlagCommand, epilog="Example: sweyard cache mirror -f run.yaml --to registry.example:5000/tasks")
def mirror(
    file: FileOption,
    to: Annotated[str, typer.Option("--to", metavar="HOST[:PORT][/PREFIX]", help="Registry to copy into.")],
    namespace: NamespaceOption = None,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Copies at once.")] = 4,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="That registry speaks plain HTTP or has an unknown certificate.")
    ] = False,
    insecure_registry: InsecureOption = None,
) -> None:
    """Copy the images of the TrainingRun or ImageCache in FILE into a registry; what is there already is skipped."""
    from sweyard_cli.cache.image_copier import ImageCopier
    from sweyard_cli.cache.mirror import Mirrored, Outcome, mirror_images, plan_copies
    from sweyard_cli.cache.registry_client import RegistryClient
    from sweyard_operator.cache_agent.image_names import registry_host

    prefix = to.rstrip("/")
    copies = plan_copies(_wanted(file, namespace).images, prefix)

    def tell(done: Mirrored) -> None:
        typer.echo(f"{done.outcome}: {done.image}{f': {done.message}' if done.message else ''}")

    targets = {registry_host(target) for target in copies.values()} if insecure else ()
    copier = ImageCopier(RegistryClient(_logins(), frozenset({*targets, *(insecure_registry or ())})))
    try:
        found = mirror_images(copies, copier, parallel=parallel, tell=tell)
    except KeyboardInterrupt as interrupt:
        raise UserError("interrupted; the same command goes on with what is left", exit_code=130) from interrupt
    failed = [done for done in found if done.outcome is Outcome.FAILED]
    typer.echo("put this into `images` of the run or into the ImageCache's spec:\nmirrors:")
    for host in sorted({registry_host(image) for image in copies}):
        typer.echo(f"  - {{registry: {host}, mirror: {prefix}}}")
    if failed:
        raise UserError(f"{len(failed)} of {len(found)} images were not copied; the same command goes on with them")


def _logins() -> "DockerLogins":
    from sweyard_cli.cache.docker_logins import DockerLogins

    return DockerLogins.read(Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"))


def _wanted(file: Path, namespace: str | None) -> "Wanted":
    from sweyard_api.cache_root import dataset_directories
    from sweyard_cli.cache.wanted import find_wanted

    documents = [document for document in read_documents(file) if document["kind"] in ("TrainingRun", "ImageCache")]
    if len(documents) != 1:
        raise UserError(f"{file}: holds {len(documents)} TrainingRuns and ImageCaches; put one into a file of its own")
    return find_wanted(documents[0], _lister(namespace), dataset_directories(os.environ))


def _lister(namespace: str | None) -> "ListImages":
    from sweyard_cli.cache.cluster import listed_by
    from sweyard_cli.cluster.connection import connect

    return lambda name: listed_by(connect(namespace), name)


def _places(wanted: "Wanted", namespace: str | None, count: int | None, budget: str | None) -> "Places":
    from sweyard_api.base import POSITIVE_QUANTITY_PATTERN
    from sweyard_cli.cache.on_nodes import Places
    from sweyard_operator.plan.placement import CacheNode
    from sweyard_operator.plan.quantities import parse_quantity

    if budget is not None and not re.fullmatch(POSITIVE_QUANTITY_PATTERN, budget):
        raise UserError(f"--budget {budget}: is no quantity above zero; write it like 500Gi")
    text = budget or wanted.spec.disk_budget
    num_bytes = None if text is None else int(parse_quantity(text))
    if count is not None:
        return Places(tuple(CacheNode(f"node-{number}", num_bytes) for number in range(1, count + 1)))
    from sweyard_cli.cache.cluster import cluster_places
    from sweyard_cli.cluster.connection import connect

    spec = wanted.spec if budget is None else wanted.spec.model_copy(update={"disk_budget": budget})
    found = cluster_places(connect(namespace), replace(wanted, spec=spec))
    if not found.nodes:
        raise UserError("no node is Ready, schedulable and matches nodeSelector; --nodes plans without a cluster")
    return found


def parse_bandwidth(text: str) -> float:
    """Bits a second of 1Gbit, 500Mbit/s, 100MB/s. Raises UserError."""
    found = _BANDWIDTH.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise UserError(f"--bandwidth {text}: write it like 1Gbit or 100MB")
    return float(found[1]) * _FACTORS[found[2].lower()] * (1 if found[3].lower() == "bit" else 8)
