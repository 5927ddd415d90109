"""Blocks of the documentation that need a cluster: each is run against a real API server.

Kinds of the whole cluster, which other tests need, are removed in a dry run of the server's alone.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config import kube_config
from tests.cli.test_on_api_server import write_dataset
from tests.shell_blocks import CLUSTER, DOCS, Block, blocks, play

from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver

NAMESPACE = "docs"
EXAMPLES = DOCS.parent / "examples"


@pytest.fixture(scope="module")
def kubeconfig(kinds: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a namespace with the run and the pool that the pages speak of."""
    kinds.make_namespace(NAMESPACE)
    config = yaml.safe_load(kinds.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = NAMESPACE
    file = tmp_path_factory.mktemp("kubeconfig") / "config"
    file.write_text(yaml.safe_dump(config))
    for example in ("tiny/trainingrun.yaml", "pool/rolloutpool.yaml"):
        kinds.kubectl("-n", NAMESPACE, "apply", "-f", str(EXAMPLES / example))
    yield file
    kinds.remove_namespace(NAMESPACE)


@pytest.mark.parametrize("block", blocks(CLUSTER), ids=lambda block: block.place)
def test_a_block_for_a_cluster_runs(
    block: Block, kubeconfig: Path, sweyard: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    datasets = tmp_path / ".cache" / "sweyard" / "datasets"
    datasets.mkdir(parents=True)
    write_dataset(datasets / "mine", 3, json.dumps)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    monkeypatch.chdir(tmp_path)
    spared = block.text.replace("kubectl delete crd", "kubectl delete --dry-run=server crd")
    play(dataclasses.replace(block, text=spared), sweyard, tmp_path, {"KUBECONFIG": str(kubeconfig), "HF_TOKEN": "x"})
