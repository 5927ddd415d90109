"""sweyard presets."""

from rich.table import Table
from rich.text import Text

from sweyard_api.presets import list_presets, load_preset
from sweyard_cli.console import make_console
from sweyard_cli.output import Format, OutputOption, print_for_machines


def presets(output: OutputOption = Format.TABLE) -> None:
    """List the named recipes."""
    summaries = {name: load_preset(name).summary for name in list_presets()}
    if output is not Format.TABLE:
        print_for_machines(
            output, [{"name": name, "summary": summary} for name, summary in summaries.items()], list(summaries)
        )
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    for name, summary in summaries.items():
        table.add_row(name, Text(summary))
    make_console().print(table)
