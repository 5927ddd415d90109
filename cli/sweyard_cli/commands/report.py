"""sweyard report."""

from pathlib import Path
from typing import Annotated

import typer

from sweyard_cli.errors import UserError
from sweyard_cli.given_path import given_path

SUFFIXES = ("", ".html", ".htm", ".md", ".png")


def page_file(given: str) -> Path:
    """Raises UserError for what can be no file, an empty text, which a Path takes for `.`, among it."""
    if given == "":
        raise UserError("--output is empty, as a variable is that was never set: name a file")
    if Path(given).is_dir():
        raise UserError(f"--output {given} is a directory: name the file in it, such as {Path(given) / 'report.html'}")
    if Path(given).suffix not in SUFFIXES:
        raise UserError(f"--output {given}: a report is HTML (.html), Markdown (.md), or its curve alone (.png)")
    return Path(given)


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of a run, finished or not.", parser=given_path)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Default: DIR/report.html. One that ends in .md is Markdown, in .png the curve alone.",
            show_default=False,
            parser=page_file,
        ),
    ] = None,
) -> None:
    """Write a page with the figures, curves and some attempts of a run; the curve also as a PNG beside it."""
    from sweyard_cli.report.write import CURVE_FILE, MARKDOWN, PICTURE, REPORT_FILE, write_curve, write_report

    if output is not None and output.suffix == PICTURE:
        write_curve(directory, output)
        typer.echo(str(output))
        return
    page = output or directory / REPORT_FILE
    curve = page.with_name(CURVE_FILE) if output is None else page.with_suffix(".png")
    write_report(directory, page, curve)
    typer.echo(f"{page}{'' if page.suffix == MARKDOWN else ' (open it in a browser)'}\n{curve}")
