"""A recipe on few tasks first."""

import pytest

from sweyard_api.phases import PHASES, phased
from sweyard_api.problem import InvalidSpecError
from sweyard_api.resolve import resolve

MINIMAL = "qwen3-8b-minimal"


@pytest.mark.parametrize(("phase", "limit"), [("one", 1), ("few", 8), ("subset", None)])
def test_a_phase_limits_the_training_tasks_and_nothing_else(phase: str, limit: int | None) -> None:
    spec = resolve(phased({"preset": MINIMAL, "tasks": {"train": {"dataset": "org/mine", "limit": 3}}}, phase))
    whole = resolve({"preset": MINIMAL, "tasks": {"train": {"dataset": "org/mine"}}})
    assert spec.tasks.train is not None
    assert (spec.tasks.train.dataset, spec.tasks.train.limit) == ("org/mine", limit)
    assert spec.model_copy(update={"tasks": whole.tasks}) == whole


def test_a_phase_writes_out_the_presets_tasks_since_an_api_server_knows_no_preset() -> None:
    phase = phased({"preset": MINIMAL}, "one")
    assert phase["tasks"]["train"] == {"dataset": "R2E-Gym/R2E-Gym-Subset", "split": "train", "limit": 1}


@pytest.mark.parametrize(
    ("preset", "phase", "says"),
    [
        (MINIMAL, "two", "preset is 'qwen3-8b-minimal': has no phase 'two'; there are one, few, subset"),
        ("tiny", "one", "has no phase 'one'; only qwen3-8b-minimal is begun in phases"),
    ],
)
def test_a_phase_that_is_not_there_is_refused(preset: str, phase: str, says: str) -> None:
    with pytest.raises(InvalidSpecError, match=says):
        phased({"preset": preset}, phase)


def test_phases_grow() -> None:
    for phases in PHASES.values():
        sizes = [float("inf") if limit is None else limit for limit in phases.values()]
        assert sizes == sorted(sizes)
