"""The files that a pod says there are. Whatever it says, no name leads out of a directory, and nothing has no end."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sweyard_cli.errors import UserError

LIST = """cd "$0" && for place; do
  [ ! -e "$place" ] || find "$place" -type f ! -path '*[[:cntrl:]]*' -exec stat -c '%s %Y %n' {} + || exit 1
done"""
"""For sh; its arguments are a directory and what is to be listed of it. Links are no files, and are not followed. A
name with the end of a line in it would be two."""
_LINE = re.compile(r"(\d{1,15}) (\d{1,11}) (.+)")
_MOST_BYTES = 256 << 20
"""Of a listing: some million files."""
_PARTIAL = ".partial"
"""Ends the names of what is still being written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file."""

    name: str
    """Its path below the run's directory."""
    num_bytes: int
    modified_at: int
    """Whole seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Of a volume, at one moment."""

    entries: Sequence[Entry]
    num_refused: int
    """Names that were left out."""

    @property
    def num_bytes(self) -> int:
        """Of all files."""
        return sum(entry.num_bytes for entry in self.entries)


def read_listing(chunks: Iterable[bytes], places: Collection[str]) -> Listing:
    """What LIST says. Raises UserError if it has no end."""
    text = bytearray()
    for chunk in chunks:
        text += chunk
        if len(text) > _MOST_BYTES:
            raise UserError(f"the list of the run's files is longer than {_MOST_BYTES >> 20} MiB: ask for fewer parts")
    lines = [_LINE.fullmatch(line) for line in text.decode(errors="surrogateescape").split("\n") if line]
    found = [Entry(line[3], int(line[1]), int(line[2])) for line in lines if line and is_within(line[3], places)]
    kept = {entry.name: entry for entry in found if _PARTIAL not in entry.name}
    return Listing(list(kept.values()), len(lines) - len(found))


def is_within(name: str, places: Collection[str]) -> bool:
    """Whether it can only be a file in one of these."""
    parts = name.split("/")
    return parts[0] in places and not {"", ".", ".."} & set(parts) and name.isprintable()
