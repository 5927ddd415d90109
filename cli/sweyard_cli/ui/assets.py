"""The page's own files, held in memory: a name that is not among them has no answer, whatever it looks like."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    content: bytes
    media_type: str
    etag: str


def load_assets() -> dict[str, Asset]:
    """By path below `static`."""
    return {path: _asset(path, file.read_bytes()) for path, file in _walk(files("sweyard_cli.ui") / "static", "")}


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{path}/")
        elif path[path.rfind(".") :] in _TYPES:
            yield path, entry


def _asset(path: str, content: bytes) -> Asset:
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Asset(content, _TYPES[path[path.rfind(".") :]], f'"{digest}"')
