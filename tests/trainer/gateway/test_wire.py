import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sweyard_trainer.gateway.wire import decode_segment, encode_segment
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
