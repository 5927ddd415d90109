"""How long a part of a control plane that ends again and again waits for its next start."""

import pytest

from sweyard_cluster.keeper import MAX_PAUSE_SECONDS, STEADY_SECONDS, BackOff


def pauses(lives_seconds: list[float]) -> list[float]:
    """Before each start, of a part that lived so long each time."""
    now, back_off, waited = 0.0, BackOff(), []
    for life in lives_seconds:
        back_off = back_off.ended(now)
        assert back_off.due_at is not None
        waited.append(back_off.due_at - now)
        back_off = back_off.started(back_off.due_at)
        assert back_off.started_at is not None
        now = back_off.started_at + life
    return waited


@pytest.mark.parametrize(
    ("lives_seconds", "waited"),
    [
        pytest.param([0, 0, 0, 0], [1, 2, 4, 8], id="pauses double"),
        pytest.param([0] * 40, [1, 2, 4, 8, 16, 32, *[MAX_PAUSE_SECONDS] * 34], id="up to a bound"),
        pytest.param([0, 0, STEADY_SECONDS + 1, 0, 0], [1, 2, 4, 1, 2], id="and begin anew after a steady life"),
    ],
)
def test_what_keeps_ending_waits_longer_each_time(lives_seconds: list[float], waited: list[float]) -> None:
    assert pauses(lives_seconds) == waited


def test_what_somebody_else_started_is_not_due_and_keeps_its_count() -> None:
    back_off = BackOff().ended(0.0).started(1.0).ended(2.0).runs()
    assert back_off == BackOff(starts=1, started_at=1.0)
