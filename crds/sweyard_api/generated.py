"""Files made from the models: written, or with --check compared with what lies there."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_or_check(description: str | None, files: Mapping[Path, str], arguments: Sequence[str] | None) -> int:
    """What a generator's main returns: 1 if --check found a file out of date."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is out of date")
    check = parser.parse_args(arguments).check
    stale = [path for path, text in files.items() if not (path.is_file() and path.read_text(encoding="utf-8") == text)]
    for path in stale:
        print(f"{path} {'is out of date: run `make crds`' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
    return 1 if check and stale else 0
