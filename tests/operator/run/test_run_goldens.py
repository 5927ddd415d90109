"""The manifests of whole runs, as they stand in golden/*.yaml.

After a wanted change: `SWEYARD_REGENERATE_GOLDEN=1 pytest tests/operator/run/test_run_goldens.py`, and read the diff.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweyard_api.constants import CONFIG_KEY
from sweyard_api.resolve import load_config, resolve
from sweyard_operator.build.run_context import ApiServerEndpoint, Development, RunContext, RunSettings
from sweyard_operator.build.trainer_job import build_trainer_job
from sweyard_operator.plan.run_children import build_foundation, build_servers
from sweyard_operator.resources import Manifest

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples"
API_SERVER = (ApiServerEndpoint("10.0.0.2", 6443), ApiServerEndpoint("10.96.0.1", 443))
SETTINGS = RunSettings(trainer_image="registry.example/sweyard-trainer:1", api_server=API_SERVER)
DEVELOPMENT = RunSettings(
    trainer_image="registry.example/sweyard-trainer:1",
    api_server=API_SERVER,
    development=Development(
        image="registry.example/base:1",
        python="/opt/sweyard/.venv/bin/python",
        host_paths=["/opt/sweyard", "/opt/python"],
    ),
)

RUNS = [
    pytest.param("tiny/trainingrun.yaml", "tiny", SETTINGS, id="tiny"),
    pytest.param("tiny/trainingrun.yaml", "tiny-development", DEVELOPMENT, id="tiny in development"),
    pytest.param("recipes/deepswe-32b.yaml", "deepswe-32b", SETTINGS, id="deepswe-32b on 64 GPUs"),
]


def build_all(example: str, settings: RunSettings) -> list[Manifest]:
    document = yaml.safe_load((EXAMPLES / example).read_text(encoding="utf-8"))
    run = RunContext(
        document["metadata"]["name"], "lab", "11111111-2222-3333-4444-555555555555", resolve(document["spec"])
    )
    address = "10.96.0.7" if run.has_gateway else None
    job = build_trainer_job(run, settings, attempt=0, restarts=0, gateway_ip=address)
    manifests = [*build_foundation(run, settings), *build_servers(run, settings, run.config.inference.replicas), job]
    config_map = next(item for item in manifests if item["kind"] == "ConfigMap")
    assert load_config(config_map["data"][CONFIG_KEY]) == run.config
    # The config's own defaults are the API's affair, and tested there.
    return [{**item, "data": {CONFIG_KEY: "..."}} if item is config_map else item for item in manifests]


@pytest.mark.parametrize(("example", "golden", "settings"), RUNS)
def test_manifests_are_as_reviewed(example: str, golden: str, settings: RunSettings) -> None:
    manifests: list[Any] = json.loads(json.dumps(build_all(example, settings)))
    file = HERE / "golden" / f"{golden}.yaml"
    if os.environ.get("SWEYARD_REGENERATE_GOLDEN"):
        file.write_text(yaml.safe_dump_all(manifests, sort_keys=False, width=120), encoding="utf-8")
    assert list(yaml.safe_load_all(file.read_text(encoding="utf-8"))) == manifests
