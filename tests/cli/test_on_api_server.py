"""run --cluster, watch, status, cache and tasks push against a real API server."""

import base64
import gzip
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import kube_config
from tests.cli.conftest import DOCUMENT
from typer.testing import CliRunner, Result

from sweyard_api.constants import LABEL_CACHE
from sweyard_cli.cluster.connection import connect
from sweyard_cli.cluster.dataset import push_dataset
from sweyard_cli.errors import UserError
from sweyard_cli.main import app
from sweyard_cluster.testing import TestCluster
from sweyard_operator.cache_agent.protocol import REPORT_KEY, ImageReport, ImageState, NodeReport, report_name
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tasks.tasks_file import TASKS_FILE, compressed

pytestmark = pytest.mark.apiserver

REPOSITORY = Path(__file__).parents[2]

Sweyard = Callable[..., Result]


@pytest.fixture
def namespace(kinds: TestCluster) -> Iterator[str]:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    kinds.make_namespace(name)
    yield name
    kinds.remove_namespace(name)


@pytest.fixture
def on_cluster(kinds: TestCluster, monkeypatch: pytest.MonkeyPatch) -> Sweyard:
    """The command line, as if this process had begun with this server's kubeconfig in its environment."""
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(kinds.kubeconfig))

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def set_status(kinds: TestCluster, namespace: str, status: dict[str, Any]) -> None:
    patch = json.dumps({"status": status})
    kinds.kubectl(
        *("-n", namespace, "patch", "trainingrun", "tiny", "--subresource=status", "--type=merge", "-p", patch)
    )


def test_a_run_is_applied_listed_and_followed_to_its_end(
    kinds: TestCluster, namespace: str, on_cluster: Sweyard, run_file: Path
) -> None:
    command = [sys.executable, "-m", "sweyard_cli", "run", "-f", str(run_file), "--cluster", "-n", namespace]
    environment = {**os.environ, "KUBECONFIG": str(kinds.kubeconfig)}
    started = subprocess.run([*command, "--no-watch"], env=environment, capture_output=True, text=True, check=False)
    assert (started.returncode, started.stderr) == (0, "")
    assert f"sweyard watch tiny -n {namespace}" in started.stdout
    again = on_cluster("run", "-f", str(run_file), "--cluster", "-n", namespace, "--no-watch")
    assert again.exit_code == 0  # applying the same is no change

    listed = on_cluster("status", "-n", namespace, "-o", "json")
    assert [(line["name"], line["phase"]) for line in json.loads(listed.stdout)] == [("tiny", "Pending")]
    assert "tiny" in on_cluster("status", "-A").stdout
    assert on_cluster("status", "other", "-n", namespace).exit_code == 2

    failure = [{"type": "Failed", "status": "True", "reason": "Deadline", "message": "took too long"}]
    times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    set_status(kinds, namespace, {"phase": "Failed", "conditions": [{**failure[0], **times}]})
    watched = on_cluster("watch", "tiny", "-n", namespace)
    assert watched.exit_code == 1
    assert "took too long" in watched.stdout
    ended = on_cluster("run", "-f", str(run_file), "--cluster", "-n", namespace)
    assert ended.exit_code == 2
    assert "has ended (Failed) and does not begin again" in ended.stderr

    set_status(kinds, namespace, {"phase": "Succeeded", "conditions": []})
    assert on_cluster("watch", "tiny", "-n", namespace).exit_code == 0


def test_what_the_server_refuses_is_told_in_its_words(
    namespace: str, on_cluster: Sweyard, tmp_path: Path, run_file: Path
) -> None:
    assert on_cluster("run", "-f", str(run_file), "--cluster", "-n", namespace, "--no-watch").exit_code == 0
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps({**DOCUMENT, "spec": {**DOCUMENT["spec"], "steps": 7}}))
    refused = on_cluster("run", "-f", str(other), "--cluster", "-n", namespace, "--no-watch")
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"error: TrainingRun {namespace}/tiny: ")
    assert "Traceback" not in refused.stderr


def test_a_namespace_that_does_not_exist_is_told(on_cluster: Sweyard, run_file: Path, kinds: TestCluster) -> None:
    refused = on_cluster("run", "-f", str(run_file), "--cluster", "-n", "nowhere", "--no-watch")
    assert refused.exit_code == 2
    assert '"nowhere" not found' in refused.stderr


def write_dataset(folder: Path, count: int, statement: Callable[[int], str]) -> Path:
    tasks = [
        Task(
            id=f"t{index}",
            repository="cachetools",
            image="dir:trees/cachetools",
            working_directory="/testbed",
            problem_statement=statement(index),
            gold_patch="",
            fail_to_pass=(),
        )
        for index in range(count)
    ]
    folder.mkdir()
    (folder / TASKS_FILE).write_bytes(compressed(tasks))
    return folder


def test_a_data_set_is_pushed_with_images_in_the_place_of_folders(
    kinds: TestCluster, namespace: str, on_cluster: Sweyard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEYARD_CACHE", str(tmp_path))
    (tmp_path / "datasets").mkdir()
    write_dataset(tmp_path / "datasets" / "mine", 3, str)
    images = tmp_path / "images.json"
    images.write_text('{"cachetools": "registry/cachetools:1"}')
    command = ("tasks", "push", "mine", "--namespace", namespace, "--images", str(images))
    for _ in range(2):
        pushed = on_cluster(*command)
        assert (pushed.exit_code, pushed.stdout) == (0, f"3 tasks in ConfigMap {namespace}/mine\n"), pushed.stderr
    kept = json.loads(kinds.kubectl("-n", namespace, "get", "configmap", "mine", "-o", "json"))
    assert kept["data"]["images"] == "registry/cachetools:1\n"
    rows = gzip.decompress(base64.b64decode(kept["binaryData"][TASKS_FILE])).splitlines()
    assert [json.loads(row)["image"] for row in rows] == ["registry/cachetools:1"] * 3


def test_a_data_set_without_images_or_too_large_is_not_pushed(
    kinds: TestCluster, namespace: str, tmp_path: Path
) -> None:
    connection = connect(namespace, str(kinds.kubeconfig))
    small = write_dataset(tmp_path / "small", 1, str)
    with pytest.raises(UserError, match="'cachetools' has no image"):
        push_dataset(connection, "mine", small, {})
    large = write_dataset(tmp_path / "large", 40, lambda _: os.urandom(40_000).hex())
    with pytest.raises(UserError, match="push about"):
        push_dataset(connection, "mine", large, {"cachetools": "x:1"})
    with pytest.raises(UserError, match="no such file"):
        push_dataset(connection, "mine", tmp_path / "none", {})


def create(kinds: TestCluster, namespace: str, folder: Path, manifest: dict[str, Any]) -> Path:
    file = folder / f"{manifest['metadata']['name']}.json"
    file.write_text(json.dumps(manifest))
    kinds.kubectl("-n", namespace, "create", "-f", str(file))
    return file


def test_a_cache_is_planned_and_shown(kinds: TestCluster, namespace: str, on_cluster: Sweyard, tmp_path: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "list"}, "data": {"images": "a:1 9\nb:1\n"}}
    create(kinds, namespace, tmp_path, listed)
    cache = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "ImageCache", "metadata": {"name": "c"}}
    file = create(kinds, namespace, tmp_path, {**cache, "spec": {"imagesFrom": "list", "copies": 1}})
    assert "no ImageCaches" in on_cluster("cache", "show", "-n", "default").stdout
    refused = on_cluster("cache", "plan", "-f", str(file), "-n", namespace)
    assert "no node is Ready, schedulable and matches nodeSelector" in refused.stderr
    planned = on_cluster("cache", "plan", "-f", str(file), "-n", namespace, "--nodes", "2")
    assert "2 nodes, 1 copy of each image: 2 pulls" in planned.stdout, planned.stderr

    said = NodeReport(node="n1", images={"a:1": ImageReport(state=ImageState.CACHED)})
    labels = {LABEL_CACHE: "c", LABEL_ROLE: ROLE_REPORT}
    report = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": report_name("c", "n1"), "labels": labels}}
    create(kinds, namespace, tmp_path, {**report, "data": {REPORT_KEY: said.model_dump_json()}})
    shown = on_cluster("cache", "show", "c", "-n", namespace)
    assert shown.stdout.splitlines() == [
        "ImageCache c: the operator has not seen it yet",
        "n1: 1 of 1 image held, as last said: takes no part now",
    ]
    assert on_cluster("cache", "show", "other", "-n", namespace).exit_code == 2


def test_the_doctor_judges_kinds_nodes_and_budgets(on_cluster: Sweyard, kinds: TestCluster) -> None:
    told = on_cluster("doctor")
    assert "ok: the cluster knows trainingruns, rolloutpools, imagecaches" in told.stdout, told.stderr
    assert "problem: no operator runs" in told.stdout
    num_nodes = len(json.loads(kinds.kubectl("get", "nodes", "-o", "json"))["items"])
    if num_nodes == 0:
        assert "problem: none of 0 nodes is Ready and schedulable" in told.stdout
        assert told.exit_code == 1
        assert "problem" in told.stderr
