"""Options that several commands share."""

import re
from pathlib import Path
from typing import Annotated

import typer

from sweyard_api.base import DNS_NAME_PATTERN
from sweyard_cli.errors import UserError
from sweyard_cli.given_path import given_path
from sweyard_cli.run_directory import run_directory

FileOption = Annotated[
    Path,
    typer.Option("--file", "-f", metavar="FILE", help="YAML file.", show_default=False, parser=given_path),
]


def checked_name(param: typer.CallbackParam, name: str | None) -> str | None:
    """What no object on a cluster can be called is not looked for. Raises UserError."""
    given = param.opts[0] if param.param_type_name == "option" else str(param.name).upper()
    return name if name is None else check_name(given, name)


def check_name(given: str, name: str) -> str:
    """The name, if objects on a cluster can be called so; `given` is where it was said. Raises UserError."""
    if not re.fullmatch(DNS_NAME_PATTERN, name):
        raise UserError(f"{given} is {name!r}: a name on a cluster has lower-case letters, digits and hyphens alone")
    return name


def checked_namespace(param: typer.CallbackParam, namespace: str | None) -> str | None:
    """As checked_name; an empty one is as none, as for kubectl."""
    return checked_name(param, namespace or None)


NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Default: that of the kubeconfig's context.",
        show_default=False,
        callback=checked_namespace,
    ),
]
RunArgument = Annotated[
    str | None, typer.Argument(help="A run on the cluster.", show_default=False, callback=checked_name)
]
RunDirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-d",
        metavar="DIR",
        help="A run on this machine, by its directory.",
        show_default=False,
        parser=run_directory,
    ),
]
DatasetsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--datasets", metavar="DIR", help="Directory of data sets, before the usual ones.", show_default=False
    ),
]
AllowUnisolatedOption = Annotated[
    bool, typer.Option("--allow-unisolated", help="Run sandboxes as plain processes where there are no namespaces.")
]


def demand_one_run(name: str | None, output: Path | None, namespace: str | None) -> None:
    """Raises UserError unless it is said where the run is, once."""
    if (name is None) == (output is None):
        raise UserError("name a run on the cluster, or give --output DIR for one on this machine")
    if output is not None and namespace is not None:
        raise UserError("--namespace is of a run on the cluster, and --output of one on this machine: give one of them")
