"""A partial PodSpec merged over ours: maps by key, named lists by name, everything else replaced.

What has another form than core/v1's replaces ours as well: it is for the API server to refuse, in its own words.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sweyard_api.kubernetes_types import NAMED_LISTS


def merge_pod_spec(spec: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`overrides` over `spec`; null removes a key, lists of named things merge by their name."""
    merged = dict(spec)
    for key, value in overrides.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            ours = merged.get(key)
            merged[key] = merge_pod_spec(ours if isinstance(ours, Mapping) else {}, value)
        elif key in NAMED_LISTS and isinstance(value, list):
            merged[key] = _merge_named(merged.get(key) or [], value, NAMED_LISTS[key])
        else:
            merged[key] = value
    return merged


def _merge_named(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    by_name = {item[key]: dict(item) for item in ours}
    for item in theirs:
        by_name[item[key]] = merge_pod_spec(by_name.get(item[key], {}), item)
    return list(by_name.values())
