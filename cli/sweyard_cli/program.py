"""How the user would call this command line again."""

import shutil
import sys
from pathlib import Path

NAME = "sweyard"


def program() -> str:
    """`sweyard` where the shell finds it, else its path, relative where that is shorter."""
    if shutil.which(NAME) is not None:
        return NAME
    script = Path(sys.executable).with_name(NAME)
    return str(script.relative_to(Path.cwd())) if script.is_relative_to(Path.cwd()) else str(script)
