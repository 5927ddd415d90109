"""sweyard logs."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweyard_api.program import call
from sweyard_cli.commands.options import NamespaceOption, RunArgument, RunDirectoryOption, demand_one_run
from sweyard_cli.errors import UserError
from sweyard_cli.report.text import visible

if TYPE_CHECKING:
    from sweyard_cli.cluster.log_lines import LogLine
    from sweyard_cli.cluster.logs import Part

_DURATION = re.compile(r"(\d+)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DEFAULT_PARTS = ("trainer", "engine", "gateway")


def logs(
    name: RunArgument = None,
    namespace: NamespaceOption = None,
    output: RunDirectoryOption = None,
    of: Annotated[
        list[str] | None,
        typer.Option(
            "--of",
            metavar="PART",
            show_default=False,
            help="trainer, engine, gateway, sandbox or operator; repeatable. Default: the first three.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until all of them have ended.")] = False,
    since: Annotated[str | None, typer.Option(help="Only what is newer, as 90s, 10m, 2h.", show_default=False)] = None,
    tail: Annotated[int | None, typer.Option(min=0, help="Only so many lines of each.", show_default=False)] = None,
) -> None:
    """Print the logs of a run's parts as one, by time."""
    demand_one_run(name, output, namespace)
    if output is not None and (of or since):
        raise UserError("--of and --since are of runs on a cluster: a run of this machine has one log, without times")
    since_seconds = parse_since(since) if since else None
    try:
        if output is not None:
            _print_local(output, follow=follow, tail=tail)
        else:
            print_lines(_read(str(name), namespace, parse_parts(of), follow, since_seconds, tail))
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def parse_since(text: str) -> int:
    """Seconds of 90s, 10m, 2h, 1d. Raises UserError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise UserError(f"--since {text}: write it like 90s, 10m or 2h")
    return int(found[1]) * _SECONDS[found[2]]


def parse_parts(of: list[str] | None) -> "list[Part]":
    """Raises UserError."""
    from sweyard_cli.cluster.logs import Part

    for each in of or ():
        if each not in list(Part):
            raise UserError(f"--of {each}: there is no such part; take one of {', '.join(Part)}")
    return [Part(each) for each in of or DEFAULT_PARTS]


def print_lines(lines: "Iterable[LogLine]") -> None:
    """With the time and where each is from; nothing in it can move the cursor."""
    from sweyard_cli.cluster.log_records import readable

    for line in lines:
        typer.echo(f"{line.time[:23]} {line.source} {visible(readable(line.text))}")


def _read(
    name: str, namespace: str | None, parts: "list[Part]", follow: bool, since_seconds: int | None, tail: int | None
) -> "Iterable[LogLine]":
    from sweyard_cli.cluster.connection import connect
    from sweyard_cli.cluster.logs import Logs, list_sources

    connection = connect(namespace)
    sources = list_sources(connection, name, parts)
    if not sources:
        told = call("status", name, "-n", connection.namespace)
        raise UserError(f"no {', '.join(parts)} of {connection.namespace}/{name} has begun; `{told}` tells why")
    found = Logs(connection, sources, since_seconds=since_seconds, tail=tail)
    return found.follow() if follow else found.read()


def _print_local(output: Path, *, follow: bool, tail: int | None) -> None:
    import time

    from sweyard_cli.local.lock import is_locked
    from sweyard_cli.local.log import LOG_FILE

    path = output / LOG_FILE
    if not path.is_file():
        raise UserError(f"{output} holds no {LOG_FILE}: give the directory of a run of this machine")
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = file.readlines()
        shown = lines if tail is None else lines[max(0, len(lines) - tail) :]
        typer.echo("".join(map(visible, shown)), nl=False)
        while follow and is_locked(output):
            typer.echo(visible(file.read()), nl=False)
            time.sleep(0.5)
        typer.echo(visible(file.read()), nl=False)
