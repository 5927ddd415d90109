"""sweyard doctor: is this cluster fit for runs?"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweyard_cli.commands.options import NamespaceOption
from sweyard_cli.documents import read_run
from sweyard_cli.errors import UserError
from sweyard_cli.output import Format, OutputOption, print_for_machines

if TYPE_CHECKING:
    from sweyard_cli.cluster.connection import Connection
    from sweyard_cli.doctor.finding import Finding


def doctor(
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Also what this TrainingRun asks for.", show_default=False),
    ] = None,
    namespace: NamespaceOption = None,
    trial: Annotated[
        bool, typer.Option("--try", help="Also make two small pods, to see whether network policies are enforced.")
    ] = False,
    image: Annotated[
        str | None, typer.Option(help="Of those pods, with python; default: the operator's.", show_default=False)
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Look for what would stop or slow runs on the kubeconfig's cluster, and say how to mend it.

    Exits with 1 if there is a problem. With -f registries of the run's images are asked, too, from this machine.
    """
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.doctor.finding import Level

    if output is Format.NAME:
        raise UserError("findings have no names: take -o json or -o yaml")
    run = read_run(file) if file else None
    found = []
    for finding in _findings(connect(namespace), run, trial, image):
        found.append(finding)
        if output is Format.TABLE:
            typer.echo(f"{finding.level}: {finding.message}")
    if output is not Format.TABLE:
        print_for_machines(output, [{**asdict(one), "level": one.level.value} for one in found])
    problems = sum(finding.level is Level.PROBLEM for finding in found)
    if problems:
        raise UserError(f"{problems} problem{'s' if problems > 1 else ''} found", exit_code=1)


def _findings(
    connection: "Connection", run: dict[str, Any] | None, trial: bool, image: str | None
) -> "Iterator[Finding]":
    from sweyard_api.resolve import resolve
    from sweyard_cli.doctor.examine import examine
    from sweyard_cli.doctor.wanted import Wanted, wanted_by

    yield from examine(connection, wanted_by(resolve(run["spec"])) if run else Wanted())
    if run is not None:
        yield from _registries(connection, run)
    if trial:
        yield _network(connection, image)


def _registries(connection: "Connection", run: dict[str, object]) -> "Iterator[Finding]":
    import os

    from sweyard_api.cache_root import dataset_directories
    from sweyard_cli.cache.cluster import listed_by
    from sweyard_cli.cache.registry_client import RegistryClient
    from sweyard_cli.cache.wanted import find_wanted
    from sweyard_cli.doctor.finding import Finding, Level
    from sweyard_cli.doctor.registries import check_registries

    try:
        wanted = find_wanted(run, lambda name: listed_by(connection, name), dataset_directories(os.environ))
    except UserError as error:
        yield Finding(Level.WARNING, f"no registry was asked: {error}")
        return
    yield from check_registries(wanted.images, RegistryClient(tries=1))


def _network(connection: "Connection", image: str | None) -> "Finding":
    import secrets

    from sweyard_cli.doctor.facts import read_operator_image
    from sweyard_cli.doctor.network_trial import NetworkTrial

    return NetworkTrial(connection, image or read_operator_image(connection), secrets.token_hex(3)).run()
