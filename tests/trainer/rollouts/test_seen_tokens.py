from pathlib import Path

import numpy as np
import pytest

from sweyard_trainer.rollouts.files import find_files, step_label
from sweyard_trainer.rollouts.reading import RolloutFormatError
from sweyard_trainer.rollouts.seen_tokens import SeenTokens, drop_seen, read_seen, write_seen

LABEL = step_label(3)


def seen(attempt: str, segment: int, *logprobs: float) -> SeenTokens:
    return SeenTokens(attempt, segment, np.array(logprobs, np.float32), np.array(logprobs, np.float32) + 10)


def test_what_was_seen_of_an_attempt_is_found_among_many(tmp_path: Path) -> None:
    others = [seen(f"3/t/{number}", 0, -1.0) for number in range(100)]
    own = [seen("3/\ud83d/0", 0, -0.1, -0.2), seen("3/\ud83d/0", 2, -0.3)]
    write_seen(tmp_path, LABEL, [*others[:50], *own, *others[50:]])
    found = read_seen(tmp_path, LABEL, "3/\ud83d/0")
    assert {number: tokens.logprobs.tolist() for number, tokens in found.items()} == {
        0: pytest.approx([-0.1, -0.2]),
        2: pytest.approx([-0.3]),
    }
    assert found[2].entropies.tolist() == pytest.approx([9.7])
    assert find_files(tmp_path) == {}, "it is no rollout file"


def test_a_bit_that_has_turned_is_told(tmp_path: Path) -> None:
    write_seen(tmp_path, LABEL, [seen("3/t/0", 0, *np.random.default_rng(0).normal(size=500))])
    (file,) = tmp_path.rglob("*.parquet")
    data = bytearray(file.read_bytes())
    data[200] ^= 0x40
    file.write_bytes(data)
    with pytest.raises(RolloutFormatError, match="damaged"):
        read_seen(tmp_path, LABEL, "3/t/0")


def test_nothing_is_known_of_what_was_not_trained_or_will_be_again(tmp_path: Path) -> None:
    drop_seen(tmp_path, LABEL)
    assert read_seen(tmp_path, LABEL, "3/t/0") == {}
    write_seen(tmp_path, LABEL, [])
    assert read_seen(tmp_path, LABEL, "3/t/0") == {}
    write_seen(tmp_path, LABEL, [seen("3/t/0", 0, -1.0)])
    assert set(read_seen(tmp_path, LABEL, "3/t/0")) == {0}
    drop_seen(tmp_path, LABEL)
    assert read_seen(tmp_path, LABEL, "3/t/0") == {}
