"""sweyard tasks list, show and stats: a data set before anything is trained on it."""

from typing import Annotated

import typer

from sweyard_cli.errors import UserError
from sweyard_cli.output import Format, OutputOption, print_for_machines
from sweyard_cli.tasks.selection import Chosen, choose

DatasetArgument = Annotated[str, typer.Argument(metavar="DATASET", help="Plain name, path, or hub id.")]
SplitOption = Annotated[str | None, typer.Option("--split", help="Only this split.", show_default=False)]
FormatOption = Annotated[str, typer.Option("--format", help="Row schema, where it cannot be told by the fields.")]
ImageOption = Annotated[
    str | None, typer.Option("--image", help="Image of tasks whose rows name none.", show_default=False)
]
RepositoryOption = Annotated[
    list[str] | None, typer.Option("--repository", help="Only this one; repeatable.", show_default=False)
]
DifficultyOption = Annotated[
    list[str] | None, typer.Option("--difficulty", help="Only this one; repeatable.", show_default=False)
]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="The first so many.", show_default=False)]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Shuffle by it before the limit.", show_default=False)]


def list_(
    dataset: DatasetArgument,
    split: SplitOption = None,
    schema: FormatOption = "auto",
    image: ImageOption = None,
    repository: RepositoryOption = None,
    difficulty: DifficultyOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the tasks of a data set as a run would choose them; rows that are no tasks are told with the reason."""
    from sweyard_cli.tasks.listing import summary, table_lines

    chosen = choose(
        dataset=dataset,
        split=split,
        format=schema,
        image=image,
        repositories=repository,
        difficulties=difficulty,
        limit=limit,
        seed=seed,
    )
    if output is not Format.TABLE:
        print_for_machines(output, [summary(task) for task in chosen.tasks], [task.id for task in chosen.tasks])
    else:
        header, *lines = table_lines(chosen.tasks)
        typer.secho(header, bold=True)
        typer.echo("\n".join(lines))
    _tell_left_out(chosen)


def show(
    dataset: DatasetArgument,
    task_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` tells it.")],
    split: SplitOption = None,
    schema: FormatOption = "auto",
    image: ImageOption = None,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Also what no agent may see: the failing tests and the solution.")
    ] = False,
) -> None:
    """Show one task: where it runs, what an agent is told, who grades it."""
    from sweyard_cli.tasks.listing import task_lines

    chosen = choose(dataset=dataset, split=split, format=schema, image=image)
    task = next((task for task in chosen.tasks if task.id == task_id), None)
    if task is None:
        near = ", ".join(each.id for each in chosen.tasks[:3])
        raise UserError(
            f"dataset {dataset!r} has no task {task_id!r}; it has {near} and so on: see `sweyard tasks list`"
        )
    typer.echo("\n".join(task_lines(task, hidden=hidden)))


def stats(
    dataset: DatasetArgument,
    split: SplitOption = None,
    schema: FormatOption = "auto",
    image: ImageOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Count a data set's tasks by repository, difficulty, kind, split and grader, and its images and tests."""
    from sweyard_cli.tasks.composition import composition, composition_lines

    if output is Format.NAME:
        raise UserError("figures have no names: take -o json or -o yaml")
    chosen = choose(practice=True, dataset=dataset, split=split, format=schema, image=image)
    figures = composition(chosen.tasks, chosen.left_out)
    if output is not Format.TABLE:
        print_for_machines(output, figures)
    else:
        typer.echo("\n".join(composition_lines(figures)))
    _tell_left_out(chosen)


def _tell_left_out(chosen: Chosen) -> None:
    for reason in chosen.left_out:
        typer.echo(f"left out: {reason}", err=True)
    if chosen.left_out:
        typer.echo(f"{len(chosen.left_out)} rows are no tasks", err=True)
