"""A partial PodSpec merged over ours: maps by key, named lists by name, everything else replaced."""

from collections.abc import Mapping, Sequence
from typing import Any

_NAMED_LISTS = frozenset(
    {"containers", "initContainers", "volumes", "env", "volumeMounts", "ports", "imagePullSecrets"}
)
_KEYS = {"volumeMounts": "mountPath", "ports": "containerPort"}


def merge_pod_spec(spec: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`overrides` over `spec`; null removes a key, lists of named things merge by their name."""
    merged = dict(spec)
    for key, value in overrides.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = merge_pod_spec(merged.get(key) or {}, value)
        elif key in _NAMED_LISTS:
            merged[key] = _merge_named(merged.get(key) or [], value, _KEYS.get(key, "name"))
        else:
            merged[key] = value
    return merged


def _merge_named(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    by_name = {item[key]: dict(item) for item in ours}
    for item in theirs:
        by_name[item[key]] = merge_pod_spec(by_name.get(item[key], {}), item)
    return list(by_name.values())
