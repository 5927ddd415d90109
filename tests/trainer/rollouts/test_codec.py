import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.rollouts.codec import decode, encode
from sweyard_trainer.rollouts.journal import Journal
from sweyard_trainer.rollouts.reading import read_attempts
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.rollouts.surrogates import escape, unescape
from sweyard_trainer.trajectory import Segment, Trajectory

# All of Unicode, halves of surrogate pairs and the escape among it.
texts = st.text(st.characters() | st.sampled_from("\ud800\udc80\udfff\U0010ffff0f"), max_size=12)
float32s = st.integers(0, 2**32 - 1).map(np.uint32)  # every bit pattern, of all NaNs too
float64s = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
segments = st.integers(0, 6).flatmap(
    lambda size: st.builds(
        Segment,
        arrays(np.int32, size),
        arrays(np.bool_, size),
        arrays(np.uint32, size, elements=float32s).map(lambda bits: bits.view(np.float32)),
        arrays(np.int32, size),
        st.none() | st.sampled_from([np.uint8, np.uint16]).flatmap(lambda kind: arrays(kind, (size, 2, 3))),
    )
)
messages = st.builds(lambda role, content: {"role": role, "content": content}, texts, texts)
trajectories = st.builds(
    Trajectory,
    attempt_id=texts,
    task_id=texts,
    group_id=texts,
    segments=st.lists(segments, max_size=3).map(tuple),
    outcome=st.sampled_from(Outcome),
    reward=float64s,
    official=st.none() | st.booleans(),
    temperature=float64s,
    transcript=st.lists(messages, max_size=3),
    patch=texts,
    grading_log=texts,
    infra_reason=texts,
    timings=st.dictionaries(texts, float64s, max_size=3),
)


def exact(value: Any) -> Any:
    """What tells any two values apart, -0.0 and NaNs of other bits among them."""
    match value:
        case float():
            return struct.pack("<d", value)
        case np.ndarray():
            return value.dtype, value.shape, value.tobytes()
        case dict():
            return [(exact(key), exact(each)) for key, each in value.items()]
        case list() | tuple():
            return type(value), [exact(each) for each in value]
        case Trajectory() | Segment():
            return [exact(getattr(value, name)) for name in type(value).__slots__]
    return type(value), value


@given(trajectories)
def test_any_trajectory_comes_back_exactly(attempt: Trajectory) -> None:
    assert exact(decode(encode(attempt))) == exact([attempt])


@settings(max_examples=30)
@given(st.lists(trajectories, min_size=1, max_size=3))
def test_any_trajectory_comes_back_exactly_from_a_journal_and_from_a_sealed_file(attempts: list[Trajectory]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "step-000001"
        journal = Journal(place, attempts)
        journal.close()
        assert exact(read_attempts(place.with_suffix(".arrows"))) == exact(attempts)
        assert exact(read_attempts(seal(place, attempts, [attempts]))) == exact(attempts)


@given(texts)
def test_any_text_has_a_form_in_utf8(text: str) -> None:
    assert unescape(escape(text).encode().decode()) == text


@pytest.mark.parametrize("text", ["", "plain", "\u00fc \U0001f600 \ufffd\x00"])
def test_what_utf8_can_hold_is_written_as_it_is(text: str) -> None:
    assert escape(text) == text
