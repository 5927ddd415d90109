"""sweyard report."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run, finished or not.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: DIR/report.html.", show_default=False),
    ] = None,
) -> None:
    """Write a page with the figures, curves and some attempts of a run; the curve also as a PNG beside it."""
    from sweyard_cli.report.write import CURVE_FILE, REPORT_FILE, write_report

    page = output or directory / REPORT_FILE
    curve = page.with_name(CURVE_FILE) if output is None else page.with_suffix(".png")
    write_report(directory, page, curve)
    typer.echo(f"{page} (open it in a browser)\n{curve}")
