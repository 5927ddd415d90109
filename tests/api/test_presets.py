"""The recipes that come with the product."""

from typing import Any

import pytest

from sweyard_api.presets import list_presets, load_preset
from sweyard_api.resolve import resolve

RECIPES = {
    "tiny",
    "grpo",
    "grpo-plus-plus",
    "dapo",
    "dr-grpo",
    "gspo",
    "deepswe-32b",
    "qwen3-8b-minimal",
    "qwen3-coder-30b-django",
    "swepdb-4b",
    "swepdb-8b",
    "swepdb-14b",
    "swepdb-14b-rewrite",
}
TASKS = {"train": {"dataset": "org/train"}, "eval": [{"dataset": "org/eval"}]}


def completed(name: str, **explicit: Any) -> dict[str, Any]:
    """A spec with the preset and no more than what it leaves to the user."""
    left_out = {"model": {"name": "org/model"}, "tasks": TASKS}
    needed = {key: value for key, value in left_out.items() if key not in load_preset(name).spec}
    return {"preset": name, **needed, **explicit}


def test_all_recipes_are_there() -> None:
    assert set(list_presets()) == RECIPES


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_says_where_its_values_come_from(name: str) -> None:
    preset = load_preset(name)
    assert preset.summary.endswith(".")
    assert len(preset.source) > 40


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_resolves(name: str) -> None:
    assert resolve(completed(name)).preset == name


def test_an_unknown_recipe_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="deepswe"):
        load_preset("deepswe")


def test_grpo_plus_plus_is_what_deepswe_describes() -> None:
    algorithm = resolve(completed("grpo-plus-plus")).algorithm
    assert (algorithm.estimator, algorithm.normalize_by_std) == ("rloo", False)
    assert (algorithm.clip_low, algorithm.clip_high) == (0.2, 0.28)
    assert (algorithm.kl.coefficient, algorithm.entropy_coefficient) == (0.0, 0.0)
    assert (algorithm.loss_aggregation, algorithm.loss_constant) == ("constant", 32_768)
    assert set(algorithm.mask_outcomes) == {"truncated", "max_turns", "agent_timeout"}
