from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.gateway.wire import decode_segment, encode_segment
from sweyard_trainer.rollout.attempt import masked
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.rollout.record import AttemptLog, encode_trajectory, read_attempts
from sweyard_trainer.trajectory import Segment

segments = st.integers(0, 40).flatmap(
    lambda size: st.builds(
        Segment,
        arrays(np.int32, size),
        arrays(np.bool_, size),
        arrays(np.float32, size),
        arrays(np.int32, size),
        st.none() | st.sampled_from([np.uint8, np.uint16]).flatmap(lambda kind: arrays(kind, (size, 2, 3))),
    )
)


@given(segments)
def test_segments_travel_bit_for_bit(segment: Segment) -> None:
    back = decode_segment(encode_segment(segment))
    for name in Segment.__slots__:
        before, after = getattr(segment, name), getattr(back, name)
        assert (before is None) == (after is None)
        if before is not None:
            assert (before.dtype, before.shape, before.tobytes()) == (after.dtype, after.shape, after.tobytes())


def test_attempts_are_read_back_and_a_cut_line_is_left_out(
    tmp_path: Path, make_plan: Callable[..., AttemptPlan]
) -> None:
    segment = Segment(*(np.ones(3, dtype) for dtype in (np.int32, np.bool_, np.float32, np.int32)))
    attempts = [
        replace(
            masked(make_plan(name), Outcome.SOLVED, ""),
            segments=(segment,),
            transcript=[{"role": "user", "content": "\u00fc\n"}],
        )
        for name in "ab"
    ]
    path = tmp_path / "rollouts" / "step.jsonl"
    with AttemptLog(path) as log:
        for attempt in attempts:
            log.write(attempt)
    with path.open("a") as file:
        file.write('{"attempt_id": "cut')
    assert [encode_trajectory(a) for a in read_attempts(path)] == [encode_trajectory(a) for a in attempts]


def test_a_step_done_again_replaces_its_records(tmp_path: Path, make_plan: Callable[..., AttemptPlan]) -> None:
    path = tmp_path / "step.jsonl"
    for name in "ab":
        with AttemptLog(path) as log:
            log.write(masked(make_plan(name), Outcome.ENV_INFRA, "x"))
    assert [attempt.task_id for attempt in read_attempts(path)] == ["b"]
