"""JSON in a ConfigMap: plain while it is small, gzip in `binaryData` once it is large.

A node that is to hold thousands of images has a list of half a megabyte; names of a data set's images compress tenfold.
"""

import base64
import gzip
import io
import zlib
from typing import Any

from sweyard_operator.resources import Manifest

PLAIN_BYTES = 32 * 1024
"""Up to this much is left to be read by people."""
MOST_BYTES = 16 << 20
"""Unpacked: ten times what thousands of images come to. Who packs more means harm."""
_SUFFIX = ".gz"


def seal(key: str, text: str) -> dict[str, Any]:
    """Fields `data` or `binaryData` of a ConfigMap; the same text gives the same bytes."""
    raw = text.encode()
    if len(raw) <= PLAIN_BYTES:
        return {"data": {key: text}}
    # Without a time of its own, so that what did not change is not written again.
    return {"binaryData": {key + _SUFFIX: base64.b64encode(gzip.compress(raw, mtime=0)).decode()}}


def sealed(config_map: Manifest, key: str) -> str:
    """As the object has it: to be compared, and opened; empty if there is nothing."""
    plain = (config_map.get("data") or {}).get(key)
    return str(plain or (config_map.get("binaryData") or {}).get(key + _SUFFIX, ""))


def unseal(text: str) -> str:
    """The JSON. Raises ValueError where it is neither."""
    if not text or text.startswith("{"):
        return text
    try:
        with gzip.open(io.BytesIO(base64.b64decode(text, validate=True))) as packed:
            raw = packed.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
        return raw.decode()
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"neither JSON nor gzip: {error}") from error
