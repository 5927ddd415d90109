"""The command line: what there is, in the order in which one meets it."""

import typer

from sweyard_cli.commands.presets import presets
from sweyard_cli.commands.resolve import resolve
from sweyard_cli.commands.validate import validate
from sweyard_cli.groups import SentenceGroup

app = typer.Typer(
    cls=SentenceGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Reinforcement learning of software-engineering agents on Kubernetes.",
)
app.command(epilog="Example: sweyard validate -f examples/tiny/trainingrun.yaml")(validate)
app.command(epilog="Example: sweyard resolve -f examples/tiny/trainingrun.yaml")(resolve)
app.command(epilog="Example: sweyard presets")(presets)


def main() -> None:
    """Entry point."""
    app()
