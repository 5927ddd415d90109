"""Where the command line says that a run is kept."""

from pathlib import Path

from sweyard_cli.errors import UserError


def run_directory(given: str | Path, option: str = "--output") -> Path:
    """A directory that is there or can be made. Raises UserError, also for an empty text, which a Path takes for `.`"""
    if given == "":
        raise UserError(f"{option} is empty, as a variable is that was never set: name a directory")
    path = Path(given)
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not there.is_dir():
        which = "is" if there == path else f"cannot be made: {there} is"
        raise UserError(f"{option} {path} {which} a file, and a run is kept in a directory: name another")
    return path
