"""What the API server wrote down about its clients."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

WRITES = ("create", "update", "patch", "delete", "deletecollection")
OURS = ("sweyard-operator", "sweyard-sandbox")
"""User agents of the operator and of the client."""


def read_audit(logs: Path) -> Iterator[dict[str, Any]]:
    """All entries, also of log files that were put aside because they had grown large."""
    for path in sorted(logs.glob("audit*.log")):
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def count_writes(entries: Iterable[dict[str, Any]]) -> Counter[str]:
    """Our writes by agent, verb and resource, whatever became of them."""
    return Counter(
        " ".join((entry["userAgent"].split("/")[0], entry["verb"], _resource(entry)))
        for entry in entries
        if entry["verb"] in WRITES and entry.get("userAgent", "").startswith(OURS)
    )


def _resource(entry: dict[str, Any]) -> str:
    reference = entry.get("objectRef") or {}
    return "/".join(part for part in (reference.get("resource", ""), reference.get("subresource", "")) if part)
