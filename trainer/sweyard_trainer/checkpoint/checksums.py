"""CRC-32 of each file of a checkpoint, taken of what is meant to be written while it is, so that a bit that storage
turns does not become another weight. It finds faults, not forgers."""

import io
from typing import IO, Any
from zlib import crc32

Checksums = dict[str, int]
"""By the file's name within its checkpoint."""
CHUNK_BYTES = 2**22


class ChecksumError(ValueError):
    """A file is not as it was written."""


class SummedStream(io.BufferedIOBase):
    """A binary stream that is only ever appended to; its checksum is noted once it is closed."""

    def __init__(self, stream: IO[bytes] | io.IOBase, sums: Checksums, file: str) -> None:
        self._stream: Any = stream
        self._sums, self._file = sums, file
        self._sum = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._sum = crc32(data, self._sum)
        return int(self._stream.write(data))

    def tell(self) -> int:
        return int(self._stream.tell())

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()  # flushes, which a full disk may refuse
            finally:
                self._stream.close()
            self._sums[self._file] = self._sum


def checksum(stream: IO[bytes]) -> int:
    """Of all that it has left."""
    total = 0
    while chunk := stream.read(CHUNK_BYTES):
        total = crc32(chunk, total)
    return total
