"""The command line: what there is, in the order in which one meets it."""

import io
import os
import sys
from typing import Annotated

import typer

from sweyard_api.cache_root import cache_root
from sweyard_api.version import VERSION
from sweyard_cli.commands import cache, rollouts, tasks
from sweyard_cli.commands.attach import attach
from sweyard_cli.commands.demo import demo
from sweyard_cli.commands.doctor import doctor
from sweyard_cli.commands.eval import evaluate
from sweyard_cli.commands.export import export
from sweyard_cli.commands.fetch import fetch
from sweyard_cli.commands.logs import logs
from sweyard_cli.commands.presets import presets
from sweyard_cli.commands.report import report
from sweyard_cli.commands.resolve import resolve
from sweyard_cli.commands.run import run
from sweyard_cli.commands.status import status
from sweyard_cli.commands.stop import resume, stop
from sweyard_cli.commands.tasks_check import check
from sweyard_cli.commands.tasks_look import list_, show, stats
from sweyard_cli.commands.tasks_make import MakeCommand, make
from sweyard_cli.commands.ui import ui
from sweyard_cli.commands.validate import validate
from sweyard_cli.commands.watch import watch
from sweyard_cli.groups import FlagCommand, SentenceGroup

TINY = "examples/tiny/trainingrun.yaml"

app = typer.Typer(
    cls=SentenceGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def tell_version(wanted: bool) -> None:
    """Print it and end."""
    if wanted:
        typer.echo(f"sweyard {VERSION}")
        raise typer.Exit


@app.callback()
def top(
    _version: Annotated[
        bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Reinforcement learning of software-engineering agents on Kubernetes."""


app.command(cls=FlagCommand, epilog="Example: sweyard demo --cluster native")(demo)
app.command(cls=FlagCommand, epilog="Example: sweyard doctor --try -f examples/tiny/trainingrun.yaml")(doctor)
app.command(cls=FlagCommand, epilog=f"Example: sweyard validate -f {TINY}")(validate)
app.command(cls=FlagCommand, epilog=f"Example: sweyard resolve -f {TINY}")(resolve)
app.command(cls=FlagCommand, epilog="Example: sweyard presets")(presets)
app.command(cls=FlagCommand, epilog=f"Example: sweyard run -f {TINY} --output runs/tiny")(run)
app.command("eval", cls=FlagCommand, epilog=f"Example: sweyard eval -f {TINY} --weights runs/tiny --attempts 4")(
    evaluate
)
app.command(cls=FlagCommand, epilog="Example: sweyard export runs/tiny --best --to tiny-best")(export)
app.command(cls=FlagCommand, epilog="Example: sweyard fetch tiny -n default --with checkpoints")(fetch)
app.command(cls=FlagCommand, epilog="Example: sweyard watch tiny -n default, or: sweyard watch --output runs/tiny")(
    watch
)
app.command(cls=FlagCommand, epilog="Example: sweyard status -A -o json")(status)
app.command(cls=FlagCommand, epilog="Example: sweyard logs tiny -n default --of trainer --of operator --follow")(logs)
app.command(cls=FlagCommand, epilog="Example: sweyard attach tiny-3 -n default")(attach)
app.command(cls=FlagCommand, epilog="Example: sweyard stop tiny -n default, or: sweyard stop --output runs/tiny")(stop)
app.command(cls=FlagCommand, epilog="Example: sweyard resume tiny -n default, or: sweyard resume --output runs/tiny")(
    resume
)
app.command(cls=FlagCommand, epilog="Example: sweyard ui runs, or: sweyard ui --cluster -A")(ui)
app.command(cls=FlagCommand, epilog="Example: sweyard report runs/tiny -o tiny.html")(report)
tasks.app.command(
    cls=MakeCommand, epilog="Example: sweyard tasks make --name mine --repo ~/src/mine --train 40 --heldout 10"
)(make)
tasks.app.command("list", cls=FlagCommand, epilog="Example: sweyard tasks list tiny --difficulty hard")(list_)
tasks.app.command(cls=FlagCommand, epilog="Example: sweyard tasks show tiny cachetools-12 --hidden")(show)
tasks.app.command(cls=FlagCommand, epilog="Example: sweyard tasks stats ./SWE-Gym")(stats)
tasks.app.command(cls=FlagCommand, epilog="Example: sweyard tasks check tiny --split heldout")(check)
tasks.app.command(
    cls=FlagCommand,
    epilog="Example: sweyard tasks push tiny --images images.json",
)(tasks.push)
app.add_typer(rollouts.app, name="rollouts")
app.add_typer(tasks.app, name="tasks")
app.add_typer(cache.app, name="cache")


def main() -> None:
    """Entry point."""
    # Nothing is written outside of our own cache, matplotlib's list of fonts neither.
    os.environ.setdefault("MPLCONFIGDIR", str(cache_root(os.environ) / "matplotlib"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None where it is closed
            stream.reconfigure(errors="replace")  # where the terminal's alphabet lacks a sign, the rest is still told
    app()
