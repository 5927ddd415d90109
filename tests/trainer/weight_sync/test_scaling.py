"""How many engines a run is given as its load goes up and down."""

import math

from hypothesis import given
from hypothesis import strategies as st

from sweyard_api.inference import EngineScaling
from sweyard_trainer.weight_sync.scaling import EngineCount

LOADS = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 300)), min_size=1, max_size=40)
"""Seconds since the last look, and attempts under way."""


@given(
    loads=LOADS,
    fewest=st.integers(1, 4),
    more=st.integers(0, 8),
    attempts_per_engine=st.integers(1, 100),
    patience=st.integers(0, 300),
)
def test_engines_are_as_many_as_the_load_lately_called_for(
    loads: list[tuple[float, int]], fewest: int, more: int, attempts_per_engine: int, patience: int
) -> None:
    scaling = EngineScaling(
        min_replicas=fewest, attempts_per_engine=attempts_per_engine, scale_down_after_seconds=patience
    )
    most = fewest + more
    count, now, heard = EngineCount.beginning(scaling, most=most, serving=fewest, now=0.0), 0.0, [(0.0, fewest)]
    for seconds, attempts in loads:
        now += seconds
        count = count.heard(attempts, now)
        heard.append((now, math.ceil(attempts / attempts_per_engine)))
        lately = max(engines for at, engines in heard if at >= now - patience)
        assert count.engines == min(max(lately, fewest), most)
        assert len(count.needs) <= 1 + most + 300 // attempts_per_engine, "what no longer matters is forgotten"


def test_a_new_life_lets_no_engine_go_before_its_attempts_had_time_to_begin() -> None:
    scaling = EngineScaling(attempts_per_engine=10, scale_down_after_seconds=60)
    count = EngineCount.beginning(scaling, most=8, serving=5, now=0.0)
    assert [count.heard(0, now).engines for now in (10.0, 60.0, 61.0)] == [5, 5, 1]
