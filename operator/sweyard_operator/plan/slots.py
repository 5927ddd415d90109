"""Slots: pods are named <pool>-<slot> with slot < cap, so the API server itself enforces the cap."""

from collections.abc import Collection
from itertools import islice


def pod_name(pool: str, slot: int) -> str:
    """Name of the pod in a slot."""
    return f"{pool}-{slot}"


def parse_slot(pool: str, name: str) -> int | None:
    """Slot of a pod of `pool`; None for any other name, also one that merely looks alike (leading zeros)."""
    prefix, _, digits = name.rpartition("-")
    if prefix != pool or not digits.isascii() or not digits.isdecimal() or str(int(digits)) != digits:
        return None
    return int(digits)


def choose_slots(taken: Collection[int], *, cap: int, count: int) -> tuple[int, ...]:
    """The lowest free slots, at most `count`. A slot is taken until its old pod is gone."""
    return tuple(islice((slot for slot in range(cap) if slot not in taken), count))
