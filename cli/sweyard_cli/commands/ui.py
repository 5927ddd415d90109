"""sweyard ui."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweyard_api.program import program
from sweyard_cli.errors import UserError
from sweyard_cli.given_path import given_path

if TYPE_CHECKING:
    from sweyard_cli.ui.directories import Directories
    from sweyard_cli.ui.sources import Sources

IN_POD = "KUBERNETES_SERVICE_HOST"
"""Set by the kubelet in every pod."""


def ui(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            help="A run's directory, or the one that runs are in.",
            show_default=False,
            parser=given_path,
        ),
    ] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="Runs, sandboxes and images of the cluster.")] = False,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", show_default=False, help="Repeatable; default: that of the kubeconfig's context."
        ),
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 8700,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SWEYARD_UI_TOKEN", show_default=False, help="Who has it may look. Default: a new one, printed."
        ),
    ] = None,
    anyone: Annotated[bool, typer.Option("--anyone", help="Ask for no token: what stands before it does.")] = False,
) -> None:
    """Show runs, sandboxes, images and attempts in a browser. It only reads.

    With DIR, or without --cluster, runs of this machine (default: runs/). A run on the cluster whose volume is mounted
    at DIR/NAME has its figures and attempts, too, if it is of the first --namespace (in a pod: of the pod's own).
    """
    import secrets

    from sweyard_cli.asked_run import RUNS
    from sweyard_cli.ui.directories import Directories
    from sweyard_cli.ui.serve import serve
    from sweyard_cli.ui.sources import Sources

    token = _checked(token)
    if anyone and token:
        raise UserError("--anyone and --token exclude each other")
    if (namespaces or everywhere) and not cluster:
        raise UserError("-n and -A are about a cluster: add --cluster")
    if directory is None and not cluster and not RUNS.is_dir():
        raise UserError(
            f"there is no {RUNS} here: give the directory of a run, or the one that runs are in, "
            f"or `{program()} ui --cluster`"
        )
    root = directory or (None if cluster else RUNS)
    directories = Directories(root) if root is not None else None
    sources = _with_cluster(directories, namespaces or [], everywhere=everywhere) if cluster else Sources(directories)
    asked = None if anyone else token or secrets.token_urlsafe(16)
    serve(sources, host, port, asked, is_new_token=token is None)


def _checked(token: str | None) -> str | None:
    """Files that Secrets are made of end with a newline, which nobody types. Raises UserError for none."""
    if token is not None and not token.strip():
        raise UserError("the token is empty: give one, by --token or SWEYARD_UI_TOKEN, or leave it out")
    return token and token.strip()


def _with_cluster(directories: "Directories | None", namespaces: list[str], *, everywhere: bool) -> "Sources":
    from sweyard_cli.cluster.connection import connect, connect_from_pod
    from sweyard_cli.ui.cluster import ClusterView
    from sweyard_cli.ui.sources import Sources

    is_in_pod = IN_POD in os.environ and "KUBECONFIG" not in os.environ
    connection = connect_from_pod() if is_in_pod else connect(namespaces[0] if namespaces else None)
    view = ClusterView(connection, None if everywhere else namespaces or [connection.namespace])
    return Sources(directories, view, connection.namespace)
