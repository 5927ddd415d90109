"""Which runs of three bytes the texts of a row group have at all, so that a search reads only groups that may match.

They are hashed into a set of 65,536 bits, capitals as small letters, and kept in the metadata of a sealed file; one of
a row group has 8 KiB beside the group's 16 MiB. What is no ASCII is left out, since its capitals have other lengths.
"""

import base64
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PLAIN_TEXTS = ("attempt_id", "patch", "grading_log", "infra_reason")
SEARCHED = (*PLAIN_TEXTS, "transcript")
"""Columns that one can search in."""
_NUM_BITS = 1 << 16
_LENGTH = 3
_READ_TOGETHER = 1 << 16
"""Bytes whose hashes a processor's cache has room for."""
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
        joined = _joined(texts)
        for start in range(0, len(joined), _READ_TOGETHER):
            present[_hashes(joined[start : start + _READ_TOGETHER + _LENGTH - 1])] = True
    return {f"{_KEY}{group}": base64.b64encode(np.packbits(present).tobytes()).decode()}


Trigrams = NDArray[np.uint8]
"""A set, eight bits a byte."""
Metadata = Mapping[bytes, bytes] | None


def trigrams_of_group(metadata: Metadata, group: int) -> Trigrams | None:
    """None where the file does not tell."""
    told = (metadata or {}).get(f"{_KEY}{group}".encode())
    return None if told is None else _decode(told)


def trigrams_of_file(metadata: Metadata) -> Trigrams | None:
    """Of all its row groups together; None where the file does not tell."""
    told = [_decode(value) for name, value in (metadata or {}).items() if name.startswith(_KEY.encode())]
    whole = [trigrams for trigrams in told if trigrams is not None]
    return np.bitwise_or.reduce(whole) if whole and len(whole) == len(told) else None


def may_hold(trigrams: Trigrams | None, text: str) -> bool:
    """False where none of the texts that have these trigrams can have `text`, with or without capitals."""
    return trigrams is None or bool(np.unpackbits(trigrams)[_hashes(text.encode())].all())


def _decode(told: bytes) -> Trigrams | None:
    """None for what is damaged: the rows can be read without."""
    try:
        bits = base64.b64decode(told, validate=True)
    except ValueError:
        return None
    return np.frombuffer(bits, np.uint8) if len(bits) == _NUM_BITS // 8 else None


def _hashes(text: bytes) -> NDArray[np.uint32]:
    """Below _NUM_BITS; some may be there twice."""
    codes = np.frombuffer(text.lower(), np.uint8).astype(np.uint32)
    if len(codes) < _LENGTH:
        return np.empty(0, np.uint32)
    first, second, third = codes[:-2], codes[1:-1], codes[2:]
    runs = first << 16 | second << 8 | third
    if not text.isascii():
        runs = runs[(first | second | third) < 0x80]
    return (runs * _MULTIPLIER >> 16).astype(np.uint32)


def _joined(texts: pa.Array) -> bytes:
    """With a byte between them that text hardly has, since a run across two of them is none."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined: bytes = pc.binary_join(whole, "\0")[0].as_buffer().to_pybytes()
    return joined


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
