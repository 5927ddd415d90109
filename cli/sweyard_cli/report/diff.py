"""Lines of a unified diff by what they are."""

from collections.abc import Iterator

_HEADERS = (
    "diff ",
    "index ",
    "--- ",
    "+++ ",
    "old mode",
    "new mode",
    "new file",
    "deleted file",
    "rename ",
    "similarity",
)
_KINDS = {"@": "hunk", "+": "added", "-": "removed", "\\": "note"}


def diff_lines(patch: str) -> Iterator[tuple[str, str]]:
    """(kind, line): header, hunk, added, removed, note or context."""
    in_hunk = False
    for line in patch.split("\n")[: -1 if patch.endswith("\n") else None]:
        if line.startswith("diff "):
            in_hunk = False
        in_hunk |= line.startswith("@@")
        if not in_hunk and line.startswith(_HEADERS):
            yield "header", line
        else:
            yield _KINDS.get(line[:1], "context"), line
