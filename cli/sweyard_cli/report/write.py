"""Writing what a run leaves for people."""

import os
from pathlib import Path

from sweyard_cli.report.curve import draw_curve
from sweyard_cli.report.markdown import render_markdown
from sweyard_cli.report.page import render_page
from sweyard_cli.results.run_results import RunResults, read_results
from sweyard_cli.whole_file import whole_file

REPORT_FILE = "report.html"
CURVE_FILE = "curve.png"
MARKDOWN = ".md"
PICTURE = ".png"


def write_report(directory: Path, page: Path | None = None, curve: Path | None = None) -> RunResults:
    """Report and curve of the run in `directory`, by default into it. Raises UserError where no run is.

    A page whose name ends in .md is Markdown.
    """
    results = read_results(directory)
    page, curve = page or directory / REPORT_FILE, curve or directory / CURVE_FILE
    if page.suffix == MARKDOWN:
        text = render_markdown(results, os.path.relpath(curve, page.parent))
    else:
        text = render_page(results)
    with whole_file(page) as file:
        file.write(text)
    draw_curve(results, curve)
    return results


def write_curve(directory: Path, picture: Path) -> None:
    """The curve alone, as a PNG. Raises UserError where no run is."""
    draw_curve(read_results(directory), picture)
