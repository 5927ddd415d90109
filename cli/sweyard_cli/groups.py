"""How commands fail: one sentence on standard error and an exit code; a traceback means a bug of ours."""

import re
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from sweyard_cli.disk import FULL, told
from sweyard_cli.errors import UserError

_NUMBERS = (int, float)
_SHOWN_TYPE = "display_type_rich"
_WITHIN_A_PARAGRAPH = re.compile(r"(?<!\n)\n *(?!\n)")


def shown_by_name(params: list[Any]) -> list[Any]:
    """Help shows what a value is called and not its type in Python; a flag takes none, and a choice shows its own."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_bool_flag:
            param.metavar = ""
        elif param.metavar is None and not param.type_descriptor.is_choice:
            param.metavar = "N" if param.type_descriptor.annotation in _NUMBERS else _called(param)
        if isinstance(param, TyperArgument):
            setattr(param, _SHOWN_TYPE, _nothing)
    return params


def _nothing(ctx: Any) -> str:
    """Stands beside the name of an argument, where an option has that of its value."""
    return ""


def _called(param: Any) -> str:
    return str(max(param.opts, key=len)).lstrip("-").replace("-", "_").upper()


class FlagCommand(TyperCommand):
    """A command whose help shows values by their names, and breaks lines where the terminal does."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.help = _WITHIN_A_PARAGRAPH.sub(" ", self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options, --help among them."""
        return shown_by_name(super().get_params(ctx))


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
        return shown_by_name(super().get_params(ctx))
