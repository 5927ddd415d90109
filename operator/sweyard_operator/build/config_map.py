"""The resolved config of a run, stored once and for good."""

from sweyard_api.constants import CONFIG_KEY, config_map_name
from sweyard_api.resolve import dump_config
from sweyard_operator.build.run_context import RunContext, owned_metadata
from sweyard_operator.resources import Manifest


def build_config_map(run: RunContext) -> Manifest:
    """ConfigMap `<run>-config`; immutable, so that every attempt of a run reads the same."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(run, config_map_name(run.name)),
        "immutable": True,
        "data": {CONFIG_KEY: dump_config(run.config)},
    }
