"""The churn proof fails when an invariant does."""

from typing import Any

import pytest
from benchmarks.prove.churn import find_breaches

GOOD = {
    "waves": {"kills": {"wanted": 8, "created": 8, "seconds": 1.0}},
    "held": 1,
    "reaped": 0,
    "most_at_once": 8,
    "outside_of_slots": 0,
    "bystanders": 7,
    "bystanders_lost": 0,
}


def test_all_well() -> None:
    assert find_breaches(8, GOOD) == []


@pytest.mark.parametrize(
    "change",
    [
        {"waves": {"kills": {"wanted": 8, "created": 9, "seconds": 1.0}}},
        {"waves": {"kills": {"wanted": 8, "created": 7, "seconds": 1.0}}},
        {"most_at_once": 9},
        {"outside_of_slots": 1},
        {"bystanders_lost": 1},
        {"reaped": 1},
    ],
    ids=["one-too-many", "one-too-few", "over-the-cap", "foreign-slot", "bystander-deleted", "held-reaped"],
)
def test_a_broken_invariant_is_told(change: dict[str, Any]) -> None:
    assert len(find_breaches(8, GOOD | change)) == 1
