"""How commands fail: one sentence on standard error and an exit code; a traceback means a bug of ours."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from sweyard_cli.disk import FULL, told
from sweyard_cli.errors import UserError


def without_types(params: list[Any]) -> list[Any]:
    """A flag takes no value, so its help shows no type of one."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_bool_flag:
            param.metavar = ""
    return params


class FlagCommand(TyperCommand):
    """A command in whose help flags have no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options, --help among them."""
        return without_types(super().get_params(ctx))


class SentenceGroup(TyperGroup):
    """A group of commands whose UserErrors, and whose files that cannot be used, are told in a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that `ctx` holds."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(error.exit_code) from error
        except OSError as error:
            if error.filename is None and error.errno not in FULL:
                raise
            typer.echo(f"error: {told(error)}", err=True)
            raise typer.Exit(2) from error

    def get_params(self, ctx: Any) -> list[Any]:
        """As of a FlagCommand."""
        return without_types(super().get_params(ctx))
