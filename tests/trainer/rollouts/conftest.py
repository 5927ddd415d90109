from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.trajectory import Segment, Trajectory

AttemptMaker = Callable[..., Trajectory]


@pytest.fixture
def make_attempt() -> AttemptMaker:
    """An attempt of one reply; fields by keyword."""
    segment = Segment(*(np.ones(3, dtype) for dtype in (np.int32, np.bool_, np.float32, np.int32)))
    transcript = [{"role": "user", "content": "fix it"}, {"role": "assistant", "content": "done\n"}]
    attempt = Trajectory("1/t/0", "t", "1/t", (segment,), Outcome.SOLVED, 1.0, transcript=transcript)

    def make(attempt_id: str = "1/t/0", **fields: Any) -> Trajectory:
        return replace(attempt, attempt_id=attempt_id, timings={}, **fields)

    return make
