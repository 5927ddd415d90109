"""Defaults, preset and explicit fields become one whole."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_api.merge import merge
from sweyard_api.problem import InvalidSpecError
from sweyard_api.resolve import dump_config, load_config, resolve
from sweyard_api.training_run import TrainingRunSpec

TASKS = {"train": {"dataset": "tiny"}}
MODEL = {"name": "org/model"}
TINY = {"preset": "tiny", "tasks": TASKS}
DAPO = {"preset": "dapo", "model": MODEL, "tasks": TASKS}
JSON = st.recursive(
    st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), JSON)


def resolved(**explicit: Any) -> TrainingRunSpec:
    return resolve({"model": MODEL, "tasks": TASKS, **explicit})


def test_explicit_fields_beat_the_preset_and_the_preset_beats_defaults() -> None:
    spec = resolve({**TINY, "rollout": {"groupSize": 4}})
    assert (spec.rollout.group_size, spec.rollout.groups_per_step, spec.rollout.infra_retries) == (4, 16, 2)


def test_an_agent_of_ones_own_may_warm_up_by_its_own_script() -> None:
    spec = resolve({**TINY, "agent": {"type": "custom", "factory": "mine:agent"}})
    assert spec.warmup is not None
    assert spec.warmup.demonstrations == "scripted"


def test_a_null_leaves_the_field_to_the_preset_as_on_a_cluster() -> None:
    spec = resolve({**TINY, "rollout": {"groupSize": None}, "steps": None})
    assert (spec.rollout.group_size, spec.steps) == (8, 20)


@pytest.mark.parametrize(
    ("explicit", "gone"),
    [
        ({**TINY, "model": MODEL}, lambda spec: spec.model.scratch is None),
        ({"preset": "deepswe-32b", "model": {"scratch": {}}}, lambda spec: spec.model.name is None),
        (
            {"preset": "qwen3-coder-30b-django", "tasks": {"train": {"dataset": "mine"}}},
            lambda spec: spec.tasks.train.limit is None and spec.tasks.train.repositories == [],
        ),
        (
            {"preset": "qwen3-coder-30b-django", "agent": {"type": "r2e"}},
            lambda spec: spec.agent.command == [] and spec.agent.max_turns == 50,
        ),
        ({"preset": "deepswe-32b", "sandboxes": {"poolRef": "shared"}}, lambda spec: spec.sandboxes.replicas == 16),
        (
            {**TINY, "storage": {"claimName": "mine"}},
            lambda spec: spec.storage.size == "10Gi",
        ),
        (
            {**DAPO, "algorithm": {"estimator": "rloo"}},
            lambda spec: not spec.algorithm.normalize_by_std,
        ),
        (
            {
                "preset": "qwen3-8b-minimal",
                "agent": {"type": "short"},
                "warmup": {"demonstrations": "scripted"},
            },
            lambda spec: spec.warmup.dataset is None and spec.warmup.steps == 200,
        ),
        ({**TINY, "warmup": {"steps": 0}}, lambda spec: spec.warmup is None),
        (
            {
                "preset": "qwen3-8b-minimal",
                "trainer": {"lora": {"rank": 0}},
                "inference": {"weights": "full"},
            },
            lambda spec: spec.trainer.lora is None,
        ),
    ],
    ids=[
        "hub model over scratch model",
        "scratch model over hub model",
        "another data set drops the selection",
        "another agent drops the command",
        "shared pool drops the inline one",
        "existing claim drops the size",
        "another estimator drops its normalisation",
        "scripted demonstrations drop the file",
        "no warm-up",
        "no adapters",
    ],
)
def test_an_explicit_choice_displaces_the_presets_other_choice(explicit: dict[str, Any], gone: Any) -> None:
    assert gone(resolve(explicit))


def test_dependent_defaults_follow_what_they_depend_on() -> None:
    spec = resolved(
        rollout={"maxPromptTokens": 100, "maxResponseTokens": 50, "maxConcurrent": 7},
        algorithm={"lossAggregation": "constant", "estimator": "dr_grpo"},
        agent={"timeoutSeconds": 100},
        reward={"timeoutSeconds": 20},
    )
    assert spec.rollout.max_tokens_per_turn == 50
    assert spec.inference.max_model_len == 150
    assert spec.algorithm.loss_constant == 50
    assert spec.algorithm.normalize_by_std is False
    assert spec.rollout.step_deadline_seconds == 120
    assert spec.sandboxes.replicas == 7


@pytest.mark.parametrize(("mode", "steps"), [("rl", 7), ("eval", 0)])
def test_an_evaluation_has_no_steps_whatever_the_file_says(mode: str, steps: int) -> None:
    assert resolved(mode=mode, steps=7, tasks={**TASKS, "eval": [{"dataset": "tiny"}]}).training_steps == steps


def test_attempts_at_once_follow_the_sandboxes() -> None:
    assert resolved(sandboxes={"replicas": 5}).rollout.max_concurrent == 5
    assert resolved(sandboxes={"poolRef": "shared"}).rollout.max_concurrent == 64


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InvalidSpecError) as error:
        resolve({**TINY, "rollout": {"groupSize": 1, "maxConcurrent": 99}})
    assert [problem.field for problem in error.value.problems] == ["rollout.groupSize", "rollout.maxConcurrent"]
    assert "rollout.maxConcurrent is 99: exceeds sandboxes.replicas" in str(error.value)


def test_resolving_does_not_change_its_input() -> None:
    written = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, "warmup": {"batchSize": 4}}
    before = repr(written)
    resolve(written)
    assert repr(written) == before


@pytest.mark.parametrize(
    "explicit",
    [
        {**TINY},
        {"preset": "deepswe-32b", "sandboxes": {"poolRef": "shared"}, "images": {"cacheRef": "shared"}},
        {
            "preset": "qwen3-8b-minimal",
            "storage": {"claimName": "mine"},
            "logging": {"wandb": {"project": "p", "secret": "s"}},
        },
        {
            "model": MODEL,
            "tasks": TASKS,
            "trainer": {"podOverrides": {"hostNetwork": True}, "tolerations": [{"key": "gpu"}]},
        },
    ],
    ids=["demo", "shared pool and cache", "existing claim", "pod overrides"],
)
def test_the_stored_config_reads_back_as_it_was(explicit: dict[str, Any]) -> None:
    spec = resolve(explicit)
    assert load_config(dump_config(spec)) == spec


def test_a_section_that_is_turned_off_is_still_checked_as_on_a_cluster() -> None:
    assert resolve({**TINY, "warmup": {"steps": 0}}).warmup is None
    with pytest.raises(InvalidSpecError, match=r"warmup.dataset is 'd': must be set if and only if"):
        resolve({**TINY, "warmup": {"steps": 0, "demonstrations": "scripted", "dataset": "d"}})


@given(MAPPINGS, MAPPINGS)
def test_merging_keeps_every_explicit_leaf(preset: dict[str, Any], explicit: dict[str, Any]) -> None:
    merged = merge(preset, explicit)
    assert merge(merged, explicit) == merged
    assert merge({}, explicit) == explicit
    for key, value in explicit.items():
        assert isinstance(value, dict) or merged[key] == value


@given(MAPPINGS)
def test_merging_nothing_keeps_the_preset(preset: dict[str, Any]) -> None:
    assert merge(preset, {}) == preset
