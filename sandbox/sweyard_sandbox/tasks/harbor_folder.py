"""Task folders in Harbor's format as rows: what each file says, without opinion about it (formats/harbor.py has those).

NAME/task.toml, NAME/instruction.md, NAME/environment/Dockerfile, NAME/tests/test.sh ..., NAME/solution/solve.sh ...
"""

import base64
from pathlib import Path
from typing import Any

TASK_TOML = "task.toml"
MOST_BYTES = 16_000_000
"""Of one task's tests and solution together; larger ones are told by the adapter."""


def harbor_rows(folder: Path) -> list[dict[str, Any]]:
    """A row a task: `folder` is one itself, or holds them, however deep."""
    return [_row(found.parent) for found in sorted(folder.rglob(TASK_TOML))]


def _row(folder: Path) -> dict[str, Any]:
    return {
        "harbor_name": folder.name,
        "task_toml": _text(folder / TASK_TOML),
        "instruction": _text(folder / "instruction.md"),
        "dockerfile": _text(folder / "environment" / "Dockerfile"),
        "tests": _files(folder / "tests"),
        "solution": _files(folder / "solution"),
    }


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _files(folder: Path) -> dict[str, str]:
    """Relative path to base64 of the content; links are followed no further than the folder."""
    root = folder.resolve()
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.resolve().is_relative_to(root)]
    if sum(path.stat().st_size for path in paths) > MOST_BYTES:
        return {}
    return {str(path.relative_to(folder)): base64.b64encode(path.read_bytes()).decode() for path in paths}
