"""A file of the user's that is written whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from sweyard_cli.disk import writes_to


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Text for `path`, which takes the place of what is there once the block has ended well.

    A pipe or a device has no such place, and is written as the block goes on. Halves of surrogate pairs, which a model
    may emit and UTF-8 cannot carry, become question marks.
    """
    if path.exists() and not path.is_file():
        with writes_to(path), path.open("w", encoding="utf-8", errors="replace") as stream:
            yield stream
        return
    target = path.resolve()  # a link stays one
    partial = target.with_name(f"{target.name}.partial")
    try:
        with writes_to(path), partial.open("w", encoding="utf-8", errors="replace") as file:
            yield file
        partial.replace(target)
    except OSError as error:
        if error.filename == str(partial):
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
