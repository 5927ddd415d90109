"""Data sets that are ConfigMaps: a task source whose `dataset` is a plain name."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sweyard_api.base import DNS_NAME_PATTERN
from sweyard_api.constants import DATASET_MOUNT_PATH
from sweyard_api.recorded import is_hub_id
from sweyard_api.training_run import TrainingRunSpec
from sweyard_operator.build.run_context import RunContext

_PLAIN_NAME = re.compile(DNS_NAME_PATTERN)


def dataset_config_maps(config: TrainingRunSpec) -> tuple[str, ...]:
    """ConfigMaps that the tasks name, each once; hub ids have a slash, paths begin with one or a dot."""
    return tuple(sorted({name for name in _datasets(config) if _PLAIN_NAME.fullmatch(name)}))


def plain_dataset_names(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The same of a spec as its user wrote it, which may lack anything."""
    tasks = spec.get("tasks") or {}
    sources = [tasks.get("train") or {}, *(tasks.get("eval") or ())]
    named = {str(source.get("dataset", "")) for source in sources}
    return tuple(sorted(name for name in named if _PLAIN_NAME.fullmatch(name)))


def is_hub_dataset(name: str) -> bool:
    """Whether a data set is fetched from the hub."""
    return not _PLAIN_NAME.fullmatch(name) and not name.startswith((".", "/"))


def has_hub_dataset(config: TrainingRunSpec) -> bool:
    """Whether any task source, or what the warm-up imitates, is fetched from the hub."""
    imitated = config.warmup.dataset if config.warmup else None
    return any(is_hub_dataset(name) for name in _datasets(config)) or (imitated is not None and is_hub_id(imitated))


def build_dataset_volumes(run: RunContext) -> list[dict[str, Any]]:
    """One volume a data set; volume names are numbered since a data set's name may be longer than theirs."""
    names = dataset_config_maps(run.config)
    return [{"name": f"dataset-{number}", "configMap": {"name": name}} for number, name in enumerate(names)]


def build_dataset_mounts(run: RunContext) -> list[dict[str, Any]]:
    """The same volumes, each at /datasets/<name>."""
    return [
        {"name": f"dataset-{number}", "mountPath": f"{DATASET_MOUNT_PATH}/{name}", "readOnly": True}
        for number, name in enumerate(dataset_config_maps(run.config))
    ]


def _datasets(config: TrainingRunSpec) -> Iterator[str]:
    for source in config.tasks.sources:
        yield source.dataset
    if config.warmup is not None and config.warmup.tasks is not None:
        yield config.warmup.tasks.dataset
