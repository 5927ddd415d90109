"""sweyard presets."""

from sweyard_api.presets import list_presets, load_preset
from sweyard_cli.console import make_console


def presets() -> None:
    """List the named recipes."""
    console = make_console()
    for name in list_presets():
        console.print(f"{name}: {load_preset(name).summary}", markup=False)
