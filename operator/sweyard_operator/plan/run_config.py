"""The config that a run goes by: stored once when it began, save for the fields that may change in a live run."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from sweyard_api.constants import CONFIG_KEY, config_map_name
from sweyard_api.crd_rules import LIVE_FIELDS
from sweyard_api.problem import InvalidSpecError, Problem
from sweyard_api.resolve import load_config, resolve
from sweyard_api.sentences import problems_of
from sweyard_api.training_run import TrainingRunSpec
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.task_images import with_task_images
from sweyard_operator.resources import CONFIG_MAPS

MAX_NAME_LENGTH = 40
"""The pods of a run's trainer carry its name with a suffix, and host names end at 63 characters."""

_LIVE_FIELDS = tuple(name for name in LIVE_FIELDS if name != "suspend")
"""Suspension is a wish of the moment, not a part of the config."""
_MAX_PROBLEMS = 3


class UnreadableConfigError(Exception):
    """The config that a run began with is not one that this operator knows: another version wrote it."""


def read_config(snapshot: RunSnapshot) -> TrainingRunSpec:
    """Stored config with live fields from the spec, or the spec resolved.

    Raises InvalidSpecError, and UnreadableConfigError with a sentence.
    """
    if len(snapshot.name) > MAX_NAME_LENGTH:
        message = f"longer than {MAX_NAME_LENGTH} characters: give the run a shorter name"
        raise InvalidSpecError([Problem("metadata.name", message, snapshot.name)])
    spec = snapshot.run["spec"]
    stored = snapshot.owned(CONFIG_MAPS, config_map_name(snapshot.name))
    if stored is None:
        return with_task_images(resolve({**spec, "suspend": False}), snapshot.datasets)
    try:
        config = _stored_config(stored["data"][CONFIG_KEY])
    except ValidationError as error:
        told = "; ".join(str(problem) for problem in problems_of(error, TrainingRunSpec)[:_MAX_PROBLEMS])
        message = (
            f"ConfigMap {config_map_name(snapshot.name)}, with which the run began, is of another version of sweyard "
            f"({told}): install the chart of that version or a later one; until then the run is left as it is"
        )
        raise UnreadableConfigError(message) from error
    return _with_live_fields(config, spec)


@lru_cache(maxsize=256)
def _stored_config(text: str) -> TrainingRunSpec:
    """Parsed once: it is immutable, and YAML takes a tenth of a second of every pass otherwise."""
    return load_config(text)


def _with_live_fields(config: TrainingRunSpec, spec: Mapping[str, Any]) -> TrainingRunSpec:
    live = {name: spec[name] for name in _LIVE_FIELDS if name in spec}
    if not live:
        return config
    values = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    return TrainingRunSpec.model_validate({**values, **live})


def is_suspended(snapshot: RunSnapshot) -> bool:
    """Whether the user wants the run suspended now."""
    return bool(snapshot.run["spec"].get("suspend"))
