"""JSON Patch and JSON Merge Patch, as far as clients of ours use them."""

from collections.abc import Mapping, Sequence
from typing import Any


class PatchTestError(ValueError):
    """A `test` operation found another value."""


def json_patch(document: dict[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Apply test, add, replace and remove in place (RFC 6902). Raises PatchTestError."""
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target: Any = document
        for part in parents:
            target = target[part]
        if operation["op"] == "test":
            if target.get(last) != operation["value"]:
                raise PatchTestError(f"testing path {operation['path']} value failed")
        elif operation["op"] == "remove":
            del target[last]
        else:
            target[last] = operation["value"]
    return document


def merge_patch(document: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
