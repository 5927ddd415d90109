"""The config as the page shows it: of a run without a cluster, without what only a cluster has."""

from collections.abc import Collection, Mapping
from typing import Any

import yaml

from sweyard_api.pod_options import PodOptions
from sweyard_cli.errors import UserError

DAMAGED = "the run's config is damaged, or another program's"

SECTIONS_OF_A_CLUSTER = (
    *("images", "storage", "restart", "suspend", "queueName"),
    *("placementDeadlineSeconds", "maxGPUHours"),
)
POD_FIELDS = tuple(field.alias or name for name, field in PodOptions.model_fields.items())


def shown_config(config: Mapping[str, Any], *, without_cluster: bool) -> str:
    """YAML; empty where the config is not known. Raises UserError where it is none."""
    if not config:
        return ""
    try:
        shown = without_pods(config) if without_cluster else dict(config)
    except (TypeError, AttributeError) as error:
        raise UserError(DAMAGED) from error
    return yaml.safe_dump(shown, sort_keys=False, width=100)


def without_pods(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a run on one machine goes by."""
    shown = {name: section for name, section in config.items() if name not in SECTIONS_OF_A_CLUSTER}
    inference, sandboxes = config.get("inference", {}), config.get("sandboxes", {})
    if "url" not in inference:  # there is no engine: the policy answers in the trainer's own process
        shown["inference"] = _only(inference, ("maxModelLen",))
    if "runtime" not in sandboxes:
        shown["sandboxes"] = _only(sandboxes, ("replicas",))
    shown["trainer"] = {name: value for name, value in config.get("trainer", {}).items() if name not in POD_FIELDS}
    return {name: section for name, section in shown.items() if section != {}}


def _only(section: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name in names}
