"""What a run ends with on the terminal: its figures, and where to read on."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sweyard_cli.figures import interval, percent
from sweyard_cli.report.write import CURVE_FILE, REPORT_FILE, write_report
from sweyard_cli.results.evaluations import EvaluationFigures, SourceFigure
from sweyard_cli.results.run_results import RunResults
from sweyard_cli.results.soundness import findings_of


def show_ending(output: Path, console: Console, next_commands: Sequence[tuple[str, str]]) -> None:
    """Write report and curve into `output`, then show figures, warnings, files and (command, what it does)."""
    results = write_report(output)
    console.print()
    if results.evaluations:
        console.print(figures_table(results.evaluations))
        for figure in results.evaluations[-1].sources:
            if figure.unverified:
                console.print(f"without best@k in {figure.source}: {figure.unverified}", markup=False)
        if results.evaluations[-1].by_repository:
            console.print()
            console.print(repositories_table(results.evaluations[-1]))
    for line in learning_lines(results):
        console.print(line, markup=False)
    for finding in findings_of(results.rows):
        console.print(f"warning: {finding.told}. {finding.remedy}.", markup=False, soft_wrap=True)
    console.print()
    console.print(f"curve   {output / CURVE_FILE}", markup=False)
    console.print(f"report  {output / REPORT_FILE} (open it in a browser)", markup=False)
    for number, (command, meaning) in enumerate(next_commands):
        console.print(f"{'' if number else 'next':<8}{command}   # {meaning}", markup=False, soft_wrap=True)


def figures_table(evaluations: Sequence[EvaluationFigures]) -> Table:
    """Held-out tasks solved: a row an evaluation, a column a source."""
    sources = list(dict.fromkeys(figure.source for evaluation in evaluations for figure in evaluation.sources))
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("held-out tasks solved")
    for source in sources:
        table.add_column(source)
    for evaluation in evaluations:
        known = {figure.source: figure for figure in evaluation.sources}
        table.add_row(evaluation.title, *(_cell(known.get(source)) for source in sources))
    return table


def repositories_table(evaluation: EvaluationFigures) -> Table:
    """One evaluation: a row a repository."""
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    for column in ("by repository", "tasks of", evaluation.title):
        table.add_column(column)
    for source, figure in evaluation.by_repository:
        table.add_row(figure.source, source, _cell(figure))
    return table


def _cell(figure: SourceFigure | None) -> str:
    if figure is None:
        return "-"
    aside = f" ({figure.set_aside} set aside)" if figure.set_aside else ""
    if not figure.attempts:
        return f"-{aside}"
    share, of = percent(figure.solved_fraction), f"{figure.solved} of {figure.attempts}"
    several = "".join(f", {name} {percent(value)}" for name, value in figure.of_several)
    return f"{share:>6}  {of} ({interval(figure.low, figure.high)}){several}{aside}"


def learning_lines(results: RunResults) -> list[str]:
    """Mean reward, or where there is none the loss, of the first and of the last step."""
    for title, name in (("mean reward", "rollout/reward_mean"), ("loss", "train/loss")):
        if points := results.series(name):
            told = dict.fromkeys(f"{value:.3f} in step {step:g}" for step, value in (points[0], points[-1]))
            return [f"{title}: {', '.join(told)}"]
    return []
