"""Files of a sandbox, as its first process writes them."""

import os


def write_file(path: str, content: int, mode: int) -> None:
    """Copy a descriptor's content to a file, without reading it, making parent directories. Raises OSError."""
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        try:
            os.makedirs(parent)
        except FileExistsError:
            raise NotADirectoryError(20, "a parent is a file", path) from None
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY, mode)
    try:
        while os.sendfile(target, content, None, 1 << 24):
            pass
        os.fchmod(target, mode)
    finally:
        os.close(target)
