"""Which runs of three bytes the texts of a row group have at all, so that a search reads only groups that may match.

They are hashed into a set of 65,536 bits, capitals as small letters, and kept in the metadata of a sealed file; one of
a row group has 8 KiB beside the group's 16 MiB. What is no ASCII is left out, since its capitals have other lengths.
"""

import base64
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PLAIN_TEXTS = ("attempt_id", "patch", "grading_log", "infra_reason")
SEARCHED = (*PLAIN_TEXTS, "transcript")
"""Columns that one can search in."""
_NUM_BITS = 1 << 16
_LONGEST = 3
_KEY = "sweyard.trigrams."
_MULTIPLIER = np.uint32(0x9E3779B1)
"""Knuth's: 2^32 over the golden ratio."""


def texts_of(rows: pa.RecordBatch | pa.Table) -> list[pa.Array]:
    """What SEARCHED columns hold: of each row one text, and last the messages of all."""
    columns = {name: _whole(rows.column(name)) for name in SEARCHED}
    said = pc.list_flatten(columns["transcript"]).field("content")
    return [*(columns[name] for name in PLAIN_TEXTS), said]


def trigram_metadata(group: int, rows: Sequence[pa.RecordBatch]) -> dict[str, str]:
    """What a file says of its row group number `group`."""
    present = np.zeros(_NUM_BITS, np.bool_)
    for texts in texts_of(pa.Table.from_batches(rows)):
        present[_hashes(_joined(texts))] = True
    return {f"{_KEY}{group}": base64.b64encode(np.packbits(present).tobytes()).decode()}


def may_hold(metadata: dict[bytes, bytes] | None, group: int, text: str) -> bool:
    """False where no text of a row group can have `text`, with or without capitals."""
    told = (metadata or {}).get(f"{_KEY}{group}".encode())
    if told is None:
        return True
    present = np.unpackbits(np.frombuffer(base64.b64decode(told), np.uint8))
    return bool(present[_hashes(text.encode())].all())


def _hashes(text: bytes) -> NDArray[np.uint32]:
    """Below _NUM_BITS; some may be there twice."""
    codes = np.frombuffer(text.lower(), np.uint8).astype(np.uint32)
    if len(codes) < _LONGEST:
        return np.empty(0, np.uint32)
    first, second, third = codes[:-2], codes[1:-1], codes[2:]
    runs = (first << 16 | second << 8 | third)[(first | second | third) < 0x80]
    return (runs * _MULTIPLIER >> 16).astype(np.uint32)


def _joined(texts: pa.Array) -> bytes:
    """With a byte between them that text hardly has, since a run across two of them is none."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined: bytes = pc.binary_join(whole, "\0")[0].as_buffer().to_pybytes()
    return joined


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
