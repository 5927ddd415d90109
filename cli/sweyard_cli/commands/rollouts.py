"""sweyard rollouts: list, read, export and train again what a run recorded."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweyard_api.program import call
from sweyard_cli.errors import UserError
from sweyard_cli.figures import plural
from sweyard_cli.given_path import given_path
from sweyard_cli.groups import FlagCommand, SentenceGroup
from sweyard_cli.output import Format, OutputOption, print_for_machines
from sweyard_cli.whole_file import whole_file

if TYPE_CHECKING:
    from sweyard_cli.rollouts.selection import Selection
    from sweyard_trainer.replay import Replayed

app = typer.Typer(cls=SentenceGroup, no_args_is_help=True, help="Recorded attempts: list, read, export, train again.")

DIFFERENT = 1
EXPORTED = ("transcript", "attempt_id", "task_id", "outcome", "reward")

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory of a run, finished or not.", parser=given_path)
]
Outcomes = Annotated[
    list[str] | None, typer.Option("--outcome", help="Only these, such as solved; repeatable.", show_default=False)
]
Reward = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Only this reward; also '>0', '<=0.5'.", show_default=False)
]
TaskPattern = Annotated[str | None, typer.Option(help="Only tasks of this id, or pattern.", show_default=False)]
Step = Annotated[int | None, typer.Option(min=1, help="Only this training step.", show_default=False)]
MinTokens = Annotated[int | None, typer.Option(min=0, help="At least so many sampled tokens.", show_default=False)]


@app.command("list", cls=FlagCommand, epilog="Example: sweyard rollouts list runs/tiny --outcome solved --step 3")
def list_(
    directory: Directory,
    outcome: Outcomes = None,
    reward: Reward = None,
    task: TaskPattern = None,
    step: Step = None,
    min_tokens: MinTokens = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the attempts of a run's steps and evaluations."""
    from sweyard_cli.rollouts.listing import COLUMNS, table_lines
    from sweyard_cli.rollouts.selection import select
    from sweyard_cli.rollouts.what_there_is import what_there_is

    columns = ("attempt_id",) if output is Format.NAME else COLUMNS
    with told_in_a_sentence():
        selection = _selection(outcome, reward, task, step, min_tokens)
        rows = list(select(directory, selection, columns))
        nothing = "" if rows else what_there_is(directory, selection)
    if output is not Format.TABLE:
        print_for_machines(output, rows, [row["attempt_id"] for row in rows])
    elif rows:
        header, *lines = table_lines(rows)
        typer.secho(header, bold=True)
        typer.echo("\n".join(lines))
    else:
        typer.echo(nothing)


@app.command(cls=FlagCommand, epilog="Example: sweyard rollouts show runs/tiny 3/cachetools-12/0 --tokens")
def show(
    directory: Directory,
    attempt_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` tells it.")],
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Each token, too: sampled or not, logprob, weight version.")
    ] = False,
) -> None:
    """Show one attempt turn by turn, its patch and its grading."""
    from sweyard_cli.rollouts.selection import rollout_files
    from sweyard_cli.rollouts.turns import COLUMNS, attempt_lines, token_lines
    from sweyard_trainer.rollouts.reading import find_attempt, read_attempt, read_row

    with told_in_a_sentence():
        path = find_attempt(rollout_files(directory), attempt_id)
        if path is None:
            all_of_them = f"`{call('rollouts', 'list', directory)}` lists all"
            raise UserError(f"{directory} holds no attempt {attempt_id}; {all_of_them}")
        lines = list(attempt_lines(read_row(path, attempt_id, COLUMNS)))
        if tokens:
            lines += token_lines(read_attempt(path, attempt_id))
    typer.echo("\n".join(lines))


@app.command(cls=FlagCommand, epilog="Example: sweyard rollouts export runs/tiny chats.jsonl --outcome solved")
def export(
    directory: Directory,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="JSONL, one attempt a line.", show_default=False, parser=given_path),
    ],
    outcome: Outcomes = None,
    reward: Reward = None,
    task: TaskPattern = None,
    step: Step = None,
    min_tokens: MinTokens = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Evaluations' attempts, too: not to learn from, or they measure nothing.")
    ] = False,
) -> None:
    """Write attempts as chats, {"messages": [{"role", "content"}]}, as sft.datasets and other trainers take them."""
    from sweyard_cli.rollouts.selection import select

    selection = replace(_selection(outcome, reward, task, step, min_tokens), held_out=held_out)
    count = 0
    with told_in_a_sentence(), whole_file(file) as lines:
        for row in select(directory, selection, EXPORTED):
            if row["transcript"]:
                messages = row.pop("transcript")
                lines.write(json.dumps({"messages": messages, **row}) + "\n")
                count += 1
    told = f"{plural(count, 'attempt')}{'' if held_out else ' of training steps'}"
    typer.echo(f"{file}: {told}{'' if count or held_out else '; with --held-out those of evaluations, too'}")


@app.command(cls=FlagCommand, epilog="Example: sweyard rollouts replay runs/tiny --step 3")
def replay(
    directory: Directory,
    step: Annotated[int, typer.Option(min=1, help="The step to train again.", show_default=False)],
    checkpoints: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The run's, if it has them elsewhere; also a path.", show_default=False),
    ] = None,
) -> None:
    """Train a step again from its recorded attempts, without engine or sandbox, and compare figures and weights.

    It begins with the last checkpoint from before the step. Exits with 1 if anything differs. DIR is not changed.
    """
    import asyncio
    import tempfile

    from sweyard_trainer.waiting_threads import let_threads_sleep

    let_threads_sleep(os.environ)
    from sweyard_trainer.replay import replay_step  # imports PyTorch

    with told_in_a_sentence(), tempfile.TemporaryDirectory(prefix="sweyard-replay-") as scratch:
        replayed = asyncio.run(replay_step(directory, step, Path(scratch), checkpoints))
    typer.echo("\n".join(replay_lines(step, replayed)))
    if not replayed.is_same:
        raise typer.Exit(DIFFERENT)


def replay_lines(step: int, replayed: "Replayed") -> Iterator[str]:
    """What came of it."""
    begun = f"the checkpoint of step {replayed.begun_after}" if replayed.begun_after else "the state before step 1"
    yield f"step {step} trained again from {begun}"
    for name, value in replayed.figures.items():
        yield f"  {name} {value:.10g}"
    if replayed.differing is None:
        yield "figures: the run has none of this step to compare with"
    elif replayed.differing:
        told = ", ".join(f"{name} {was!r} then, {now!r} now" for name, (was, now) in replayed.differing.items())
        yield f"figures: not the same: {told}"
    else:
        yield "figures: the same, bit for bit"
    verdicts = {
        None: "the run has kept none from after this step to compare with",
        True: "the same, bit for bit",
        False: "not the same",
    }
    yield f"weights: {verdicts[replayed.same_weights]}"


@contextmanager
def told_in_a_sentence() -> Iterator[None]:
    """What a run's directory lacks, or a file in it, as the user's error."""
    from sweyard_sandbox.errors import SweyardError

    try:
        yield
    except SweyardError as error:
        raise UserError(str(error)) from error


def _selection(
    outcome: list[str] | None, reward: str | None, task: str | None, step: int | None, min_tokens: int | None
) -> "Selection":
    from sweyard_cli.rollouts.selection import Condition, Selection
    from sweyard_sandbox.outcome import Outcome

    for each in outcome or ():
        if each not in list(Outcome):
            raise UserError(f"--outcome {each}: there is none of this name; take one of {', '.join(Outcome)}")
    return Selection(tuple(outcome or ()), Condition.parse(reward) if reward else None, task, step, min_tokens)
