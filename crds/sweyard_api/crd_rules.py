"""CEL rules that only a TrainingRun on a cluster needs: what a preset may leave out, and what may change."""

from typing import Any

from sweyard_api.presets import list_presets, load_preset
from sweyard_api.schema import Schema, required_paths

LIVE_FIELDS = (
    *("suspend", "restart", "maxGPUHours"),
    *("activeDeadlineSeconds", "placementDeadlineSeconds", "ttlSecondsAfterFinished"),
)
"""May change at any time. Everything else is stored with the run when it begins."""
QUEUE_FIELDS = ("queueName", "workloadPriorityClassName")
"""May change while the run is suspended, when it has no place in any queue."""

_UNCHANGED = "has(self.{0}) == has(oldSelf.{0}) && (!has(self.{0}) || self.{0} == oldSelf.{0})"


def required_rules(spec: Schema) -> list[dict[str, str]]:
    """A required field must be written, or a preset must be named that sets it."""
    rules = [_required_rule(path) for path in required_paths(spec)]
    either = "has(self.model.name) || has(self.model.scratch)"
    rules.append(
        {
            "rule": f"!has(self.model) || {either}{_or_preset_sets(('model',))}",
            "fieldPath": ".model",
            "message": "set exactly one of name (a hub id or path) and scratch (make a small model)",
        }
    )
    without_training = "self.?mode.orValue('rl') != 'rl'"
    rules.append(
        {
            "rule": f"{without_training} || self.?tasks.?train.hasValue(){_or_preset_sets(('tasks', 'train'))}",
            "fieldPath": ".tasks.train",
            "message": "tasks.train is required in mode rl: set it, or a preset that does",
            "reason": "FieldValueRequired",
        }
    )
    return rules


def _required_rule(path: tuple[str, ...]) -> dict[str, str]:
    parents = [f"has(self.{'.'.join(path[:depth])})" for depth in range(1, len(path))]
    unless = f"!({' && '.join(parents)}) || " if parents else ""
    name = ".".join(path)
    return {
        "rule": f"{unless}has(self.{name}){_or_preset_sets(path)}",
        "fieldPath": f".{name}",
        "message": f"{name} is required: set it, or a preset that does",
        "reason": "FieldValueRequired",
    }


def _or_preset_sets(path: tuple[str, ...]) -> str:
    setters = [name for name in list_presets() if _at(load_preset(name).spec, path) is not None]
    return f" || (has(self.preset) && self.preset in {setters})" if setters else ""


def _at(spec: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        spec = spec.get(key) if isinstance(spec, dict) else None
    return spec


def transition_rules(spec: Schema) -> list[dict[str, str]]:
    """Fields of a run cannot change once it exists, save LIVE_FIELDS, and some while the run is suspended."""
    rules = [
        _unchanged_rule(name, f"{name} cannot change once the run exists: create another run with the new value")
        for name in spec["properties"]
        if name not in (*LIVE_FIELDS, *QUEUE_FIELDS)
    ]
    return [*rules, *map(_unchanged_unless_suspended, QUEUE_FIELDS)]


def _unchanged_unless_suspended(name: str) -> dict[str, str]:
    unchanged = _unchanged_rule(name, f"{name} can change only while suspend is true")
    return unchanged | {"rule": f"(has(self.suspend) && self.suspend) || ({unchanged['rule']})"}


def _unchanged_rule(name: str, message: str) -> dict[str, str]:
    return {"rule": _UNCHANGED.format(name), "fieldPath": f".{name}", "message": message}


def tell_what_may_change(spec: Schema) -> Schema:
    """State each top-level field's transition rule in its description."""
    for name, field in spec["properties"].items():
        may = "May change at any time." if name in LIVE_FIELDS else "Cannot change once the run exists."
        if name in QUEUE_FIELDS:
            may = "May change while suspended."
        field["description"] = f"{field['description']} {may}"
    return spec
