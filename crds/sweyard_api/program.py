"""How the user would call the command line again; every hint spells it this way."""

import shutil
import sys
from pathlib import Path

NAME = "sweyard"


def program() -> str:
    """`sweyard` where the shell finds it, else its path, relative where that is shorter."""
    script = Path(sys.executable).with_name(NAME)
    if shutil.which(NAME) is not None or not script.exists():
        return NAME
    return str(script.relative_to(Path.cwd())) if script.is_relative_to(Path.cwd()) else str(script)
