"""Phases in which a recipe is begun: the same run on few tasks first, each phase a run of its own. Pure."""

from collections.abc import Mapping
from typing import Any

from sweyard_api.merge import merge
from sweyard_api.presets import load_preset
from sweyard_api.problem import InvalidSpecError, Problem

PHASES: Mapping[str, Mapping[str, int | None]] = {
    "qwen3-8b-minimal": {"one": 1, "few": 8, "subset": None},
}
"""By preset: names of phases in their order, and how many training tasks each has; None for all."""


def phased(spec: Mapping[str, Any], phase: str) -> dict[str, Any]:
    """`spec` on the tasks of one phase of its preset. Raises InvalidSpecError for a phase that it does not have."""
    preset = spec.get("preset")
    phases = PHASES.get(str(preset), {})
    if phase not in phases:
        there_are = f"there are {', '.join(phases)}" if phases else f"only {', '.join(PHASES)} is begun in phases"
        raise InvalidSpecError([Problem("preset", f"has no phase {phase!r}; {there_are}", str(preset))])
    whole = merge({"tasks": load_preset(str(preset)).spec["tasks"]}, spec)
    train = {name: value for name, value in whole["tasks"]["train"].items() if name != "limit"}
    if (limit := phases[phase]) is not None:
        train["limit"] = limit
    return {**whole, "tasks": {**whole["tasks"], "train": train}}
