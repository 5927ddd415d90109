"""A path of the command line."""

from pathlib import Path

from sweyard_cli.errors import UserError


def given_path(given: str | Path) -> Path:
    """Raises UserError for an empty text, which a Path takes for the directory that one is in."""
    if given == "":
        raise UserError("a path is empty, as a variable is that was never set: name the file or the directory")
    return Path(given)
