"""Files as they come over a stream, one behind the other: of each a line with its size, its bytes, and a last line.

Names are not in the stream: files come in the order in which they were asked for. So there is no archive whose members
could be links or devices, or lead elsewhere. The last line tells bytes that are a file's from what was said in their
place, where one could not be read to its end.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sweyard_cli.disk import writes_to
from sweyard_cli.errors import UserError
from sweyard_cli.fetch.listing import Entry

READ = """cd "$0" && head -c "$1" | while IFS= read -r name; do
  { size=$(stat -L -c %s /proc/self/fd/3) && echo "$size" && head -c "$size" <&3 && echo end; } 3<"./$name" || echo gone
done"""
"""For sh; its arguments are a directory and how many bytes of names follow as its input, one a line."""
_GONE, _END = b"gone", b"end"
_MOST_SIZE_CHARACTERS = 20
_GROWTH_BYTES = 64 << 20
"""That a file may have grown since it was listed, of a run that goes on."""
BROKEN = "the connection to the pod broke off; what has come is kept: run the same command again"


class Incoming:
    """Bytes of a stream, taken in lines and pieces."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def line(self) -> bytes:
        """Up to the end of a short line. Raises UserError where there is none."""
        while b"\n" not in self._rest:
            if len(self._rest) > _MOST_SIZE_CHARACTERS:
                raise UserError(f"the pod sends something else than files ({self._rest[:40]!r})", exit_code=1)
            self._rest += self._next()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def pieces(self, num_bytes: int) -> Iterator[bytes]:
        """So many bytes. Raises UserError if they do not come."""
        while num_bytes:
            piece, self._rest = self._rest[:num_bytes], self._rest[num_bytes:]
            if piece:
                num_bytes -= len(piece)
                yield piece
            else:
                self._rest = self._next()

    def _next(self) -> bytes:
        for chunk in self._chunks:
            return chunk
        raise UserError(BROKEN, exit_code=1)


def receive(
    entries: Sequence[Entry], chunks: Iterator[bytes], directory: Path, *, is_live: bool, told: Callable[[int], None]
) -> list[Entry]:
    """Write these files of a READ below `directory`, each whole or not at all; those that were gone.

    `told` is called with the number of bytes of each piece. Raises UserError, also for a file that is longer than was
    listed, but for what a live run may add.
    """
    incoming, gone = Incoming(chunks), []
    for entry in entries:
        if (line := incoming.line()) == _GONE:
            gone.append(entry)
            continue
        most = entry.num_bytes + (_GROWTH_BYTES if is_live else 0)
        if not line.isdigit() or int(line) > most:
            raise UserError(
                f"{entry.name} is {line.decode(errors='replace')[:20]} bytes long, and not {entry.num_bytes}"
            )
        _write(directory / entry.name, incoming, int(line), entry, told)
    return gone


def _write(path: Path, incoming: Incoming, num_bytes: int, entry: Entry, told: Callable[[int], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    coming = path.with_name(f"{path.name}.coming")
    with writes_to(path), coming.open("wb") as file:
        for piece in incoming.pieces(num_bytes):
            file.write(piece)
            told(len(piece))
    if incoming.line() != _END:
        raise UserError(f"{entry.name} could not be read to its end: run the same command again", exit_code=1)
    os.utime(coming, (entry.modified_at, entry.modified_at))
    coming.replace(path)
