from sweyard_trainer.rollout.occupancy import Occupancy


def test_places_are_idle_when_nobody_uses_them_and_each_look_begins_anew() -> None:
    now = 0.0
    occupancy = Occupancy(4, lambda: now)
    assert occupancy.idle_fraction() == 0.0
    with occupancy.in_use():
        now = 2.0
        with occupancy.in_use():
            now = 4.0
    assert occupancy.idle_fraction() == 1 - 6 / 16
    now = 5.0
    assert occupancy.idle_fraction() == 1.0
