"""sweyard export."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweyard_api.program import call
from sweyard_cli.errors import UserError
from sweyard_cli.given_path import given_path

if TYPE_CHECKING:
    from sweyard_api.training_run import TrainingRunSpec
    from sweyard_trainer.export.choice import Chosen

ADAPTER_CONFIG = "adapter_config.json"


def export(
    directory: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="Directory of a run, finished or not.", parser=given_path)
    ],
    to: Annotated[
        Path,
        typer.Option("--to", metavar="DIR", help="Made here; must not exist.", show_default=False, parser=given_path),
    ],
    step: Annotated[int | None, typer.Option(metavar="N", help="The checkpoint of step N.", show_default=False)] = None,
    best: Annotated[bool, typer.Option("--best", help="The checkpoint that solved most held-out tasks.")] = False,
    latest: Annotated[
        bool, typer.Option("--latest", help="The latest checkpoint; so it is without any choice.")
    ] = False,
    checkpoints: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where its checkpoints are, if not in RUN_DIR.", show_default=False),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Of a run that trained adapters: the whole model with them folded in.")
    ] = False,
) -> None:
    """Write the weights of a run as a Hugging Face directory, with its tokenizer."""
    if (step is not None) + best + latest > 1:
        raise UserError("--step, --best and --latest choose different weights: give one of them")
    if to.exists():
        raise UserError(f"--to {to} is there already, and nothing is overwritten: name another directory, or remove it")
    spec, chosen = choose_weights(directory, checkpoints=checkpoints, step=step, best=best)
    write_weights(directory, spec, chosen, to, merge=merge)
    typer.echo(f"{to}: {chosen.description}")
    if (to / ADAPTER_CONFIG).exists():
        typer.echo(f"next    vllm serve BASE --enable-lora --lora-modules policy={to}   # BASE: what it was trained on")
    else:
        typer.echo(f"next    {call('eval', '-f', 'FILE', '--weights', to)}   # what it solves of FILE's held-out tasks")


def choose_weights(
    run: Path, *, checkpoints: str | None = None, step: int | None = None, best: bool = False
) -> tuple["TrainingRunSpec", "Chosen"]:
    """The run's config, and what is chosen of it; see sweyard_trainer.export.choice. Raises UserError."""
    from sweyard_sandbox.errors import SweyardError
    from sweyard_trainer.export.choice import RunWeights, read_config

    try:
        spec = read_config(run)
        return spec, RunWeights(run, spec, checkpoints).choose(step=step, best=best)
    except SweyardError as error:
        raise UserError(str(error)) from error


def write_weights(run: Path, spec: "TrainingRunSpec", chosen: "Chosen", to: Path, *, merge: bool) -> None:
    """See sweyard_trainer.export.write. Raises UserError."""
    from sweyard_sandbox.errors import SweyardError
    from sweyard_trainer.export.write import export_weights  # imports PyTorch: what can be refused has been

    try:
        export_weights(run, spec, chosen, to, merge=merge)
    except SweyardError as error:
        raise UserError(str(error)) from error
