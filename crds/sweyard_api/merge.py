"""Preset and explicit fields into one mapping."""

from collections.abc import Mapping
from typing import Any

_ALL = "*"
DISPLACES: dict[str, tuple[str, ...]] = {
    "model.name": ("scratch", "revision", "tokenSecret"),
    "model.scratch": ("name", "revision", "tokenSecret"),
    "tasks.train.dataset": (_ALL,),
    "agent.type": ("command", "environment", "files", "shell", "nativeCalls", "factory"),
    "warmup.demonstrations": ("dataset",),
    "algorithm.estimator": ("normalizeByStd", "estimatorFunction"),
    "algorithm.lossAggregation": ("lossConstant",),
    "inference.placement": ("url", "fixedWeights", "retokenizeReplies"),
    "sandboxes.poolRef": (_ALL,),
    "images.cacheRef": (_ALL,),
    "storage.claimName": (_ALL,),
}
"""What an explicit field takes away from the preset beside it, because the two cannot stand together."""


def merge(preset: Mapping[str, Any], explicit: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """`explicit` over `preset`, mapping by mapping; lists are replaced whole; null means unset, as on a cluster."""
    explicit = {key: value for key, value in explicit.items() if value is not None}
    merged = {key: value for key, value in preset.items() if not _displaced(key, explicit, path)}
    for key, value in explicit.items():
        if isinstance(value, Mapping):
            below = merged.get(key)
            value = merge(below if isinstance(below, Mapping) else {}, value, f"{path}{key}.")
        merged[key] = value
    return merged


def _displaced(key: str, explicit: Mapping[str, Any], path: str) -> bool:
    taken = {name for chosen in explicit for name in DISPLACES.get(f"{path}{chosen}", ())}
    return key in taken or _ALL in taken
