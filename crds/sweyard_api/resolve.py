"""Defaults, preset and explicit fields merged once into the config that every component reads."""

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from sweyard_api.derive import derive
from sweyard_api.merge import merge
from sweyard_api.presets import list_presets, load_preset
from sweyard_api.problem import InvalidSpecError, Problem, broken_rules
from sweyard_api.sentences import did_you_mean, problems_of
from sweyard_api.training_run import TrainingRunSpec
from sweyard_api.yaml_text import load_document


def resolve(spec: Mapping[str, Any]) -> TrainingRunSpec:
    """The whole config of a run from the spec as a user wrote it (YAML's spelling).

    Raises InvalidSpecError with every problem that can be told.
    """
    try:
        whole = TrainingRunSpec.model_validate(merge(_preset_spec(spec.get("preset")), spec), strict=True)
    except ValidationError as error:
        raise InvalidSpecError(problems_of(error, TrainingRunSpec)) from error
    resolved = derive(whole)
    if problems := [*_problems_of_dropped(whole, resolved), *broken_rules(resolved)]:
        raise InvalidSpecError(problems)
    return resolved


def _problems_of_dropped(whole: TrainingRunSpec, resolved: TrainingRunSpec) -> list[Problem]:
    """Sections that are turned off have no part in the config, but what they say is still checked, as on a cluster."""
    problems: list[Problem] = []
    if whole.warmup is not None and resolved.warmup is None:
        problems += broken_rules(whole.warmup, "warmup")
    if whole.trainer.lora is not None and resolved.trainer.lora is None:
        problems += broken_rules(whole.trainer.lora, "trainer.lora")
    return problems


def dump_config(spec: TrainingRunSpec) -> str:
    """A resolved config as YAML, the content of the run's ConfigMap."""
    values = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return yaml.safe_dump(values, sort_keys=False, width=120)


def load_config(text: str) -> TrainingRunSpec:
    """The inverse of dump_config. Raises pydantic.ValidationError for anything else."""
    return TrainingRunSpec.model_validate(load_document(text))


def _preset_spec(name: object) -> Mapping[str, Any]:
    if name is None:
        return {}
    known = list_presets()
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(str(name), known) or f"; there are {', '.join(known)}"
        raise InvalidSpecError([Problem("preset", f"there is no such preset{hint}", str(name))])
    return load_preset(name).spec
