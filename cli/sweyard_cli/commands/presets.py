"""sweyard presets."""

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
    console = make_console()
    for name, summary in summaries.items():
        console.print(f"{name}: {summary}", markup=False)
