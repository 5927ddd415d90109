"""Which groups teach something, by the same rules as the batch they would be in."""

from pathlib import Path
from typing import Any

import pytest

from sweyard_api.algorithm import Algorithm
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.learner.group_signal import group_signal

MAX_TOKENS = 20


@pytest.fixture(autouse=True)
def filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users_filters.py").write_text("def none(group): return False\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("algorithm", "rewards", "lengths", "truncated", "teaches"),
    [
        pytest.param({}, (0, 1), (12, 12), (), True, id="rewards differ"),
        pytest.param({}, (1, 1), (12, 12), (), False, id="rewards are equal"),
        pytest.param({"drop_outcomes": ["truncated"]}, (1, 1, 0), (12, 12, 12), (2,), False, id="the other is dropped"),
        pytest.param({"mask_outcomes": ["truncated"]}, (1, 1, 0), (12, 12, 12), (2,), True, id="the other is masked"),
        pytest.param({"overlong": {"buffer_tokens": 10}}, (1, 1), (12, 24), (), True, id="one is punished for length"),
        pytest.param({"group_filter": "users_filters:none"}, (0, 1), (12, 12), (), False, id="the user keeps none"),
    ],
)
def test_a_group_teaches_what_its_batch_would_train_on(
    make_trajectory: Any,
    algorithm: dict[str, Any],
    rewards: tuple[float, ...],
    lengths: tuple[int, ...],
    truncated: tuple[int, ...],
    teaches: bool,
) -> None:
    group = [
        make_trajectory(reward, length=length, seed=seed, outcome=Outcome.TRUNCATED if seed in truncated else None)
        for seed, (reward, length) in enumerate(zip(rewards, lengths, strict=True))
    ]
    assert group_signal(Algorithm.model_validate(algorithm), MAX_TOKENS)(group) == teaches


def test_infrastructure_is_no_loser(make_trajectory: Any) -> None:
    group = [make_trajectory(1, seed=0), make_trajectory(0, seed=1, outcome=Outcome.ENV_INFRA)]
    assert not group_signal(Algorithm(), MAX_TOKENS)(group)
