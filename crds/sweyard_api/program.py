"""How the user would call the command line again; every hint spells it this way."""

import shlex
import shutil
import sys
from pathlib import Path

NAME = "sweyard"


def program() -> str:
    """`sweyard` where the shell finds it, else its path, relative where that is shorter; as a shell reads it."""
    script = Path(sys.executable).with_name(NAME)
    if shutil.which(NAME) is not None or not script.exists():
        return NAME
    return shlex.quote(str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script))


def call(*words: object) -> str:
    """The program with these words, to be pasted into a shell, whatever is in the names of files."""
    return f"{program()} {shlex.join(map(str, words))}"
