"""sweyard tasks make."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperOption

from sweyard_api.program import call
from sweyard_cli.disk import writes_to
from sweyard_cli.errors import UserError, interrupted_making
from sweyard_cli.groups import FlagCommand


class MakeCommand(FlagCommand):
    """Its help tells numbers and names that the maker knows, which is loaded for them alone."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Fill in the help of the options."""
        from sweyard_sandbox.tasks.mutation.kinds import KINDS
        from sweyard_sandbox.tasks.sizes import USUAL

        for option in self.params:
            if isinstance(option, TyperOption) and option.help:
                option.help = option.help.format(kinds=", ".join(KINDS), **USUAL)
        super().format_help(ctx, formatter)


def make(
    name: Annotated[str, typer.Option(help="What TrainingRuns call it: tasks.train.dataset.", show_default=False)],
    package: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME==VERSION", help="For splits train and heldout; repeatable.", show_default=False),
    ] = None,
    repo: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="For the same, a repository of yours; repeatable.", show_default=False),
    ] = None,
    unseen_package: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME==VERSION", help="For split unseen; repeatable.", show_default=False),
    ] = None,
    train: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Tasks to train on. Default: {train}, or what there is of it."),
    ] = None,
    heldout: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Tasks in other functions of the same packages. Default: {heldout}, or what there is of it.",
        ),
    ] = None,
    unseen: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Tasks in the packages never trained on. Default: {unseen}, or what there is of it.",
        ),
    ] = None,
    practice: Annotated[
        int, typer.Option(metavar="N", min=0, help="Unverified ones to demonstrate on, split practice.")
    ] = 0,
    kinds: Annotated[
        str,
        typer.Option(metavar="KIND,...", help="Kinds of bug. Default: all, which are {kinds}.", show_default=False),
    ] = "",
    per_function: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many tasks of one function.")] = 6,
    seed: Annotated[int, typer.Option(help="Draws tasks and splits.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = (os.cpu_count() or 1) + 1,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Downloads, data sets. Default: SWEYARD_CACHE, or ~/.cache/sweyard.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to write. Default: datasets/NAME in the cache.", show_default=False),
    ] = None,
) -> None:
    """Make a data set of bug-repair tasks from Python packages, or from repositories of your own."""
    from sweyard_api.cache_root import cache_root
    from sweyard_sandbox.tasks.make import Options, Quotas
    from sweyard_sandbox.tasks.making import Making, run
    from sweyard_sandbox.tasks.source import SourceError

    options = Options(
        seed, Quotas(train, heldout, unseen, practice), frozenset(filter(None, kinds.split(","))), per_function, jobs
    )
    making = Making(
        name=name,
        cache=cache or cache_root(os.environ),
        packages=package or (),
        repositories=repo or (),
        unseen_packages=unseen_package or (),
        options=options,
        out=out,
    )
    try:
        with writes_to(making.out or making.cache):
            folder = run(making)
    except SourceError as error:
        raise UserError(str(error)) from error
    except KeyboardInterrupt as interrupt:
        raise interrupted_making(call(*sys.argv[1:])) from interrupt
    made = folder if out or cache else name
    typer.echo(f"next    {call('tasks', 'check', made)}   # grades each task with its own patch, and with none")
