"""Writing what a run leaves for people."""

from pathlib import Path

from sweyard_cli.report.curve import draw_curve
from sweyard_cli.report.page import render_page
from sweyard_cli.results.run_results import RunResults, read_results

REPORT_FILE = "report.html"
CURVE_FILE = "curve.png"


def write_report(directory: Path, page: Path | None = None, curve: Path | None = None) -> RunResults:
    """Report and curve of the run in `directory`, by default into it. Raises UserError where no run is."""
    results = read_results(directory)
    text = render_page(results)
    # A model may emit half of a surrogate pair, which UTF-8 cannot carry.
    (page or directory / REPORT_FILE).write_text(text, encoding="utf-8", errors="replace")
    draw_curve(results, curve or directory / CURVE_FILE)
    return results
