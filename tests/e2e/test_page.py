"""The chart's page from its image: a run on the cluster, its sandboxes, images and attempts, through its Service."""

import contextlib
import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.installation import Installation
from tests.e2e.test_run_on_cluster import SPEC

from sweyard_cli.demo.cluster_commands import Commands
from sweyard_cli.demo.cluster_install import SYSTEM_NAMESPACE, image_value
from sweyard_cli.demo.cluster_targets import Native
from sweyard_cluster.testing import TestCluster
from sweyard_operator.build.pod_template import RUN_AS_USER

pytestmark = [pytest.mark.kubelet, pytest.mark.slow, pytest.mark.timeout(1_800)]

CHECKOUT = Path(__file__).parents[2]
CHART = str(CHECKOUT / "charts" / "sweyard")
SECRET = "page-token"
TOKEN = "token-of-this-test"
CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "runs"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}
WITHOUT_END: dict[str, Any] = {
    **SPEC,
    "steps": 1_000,
    "warmup": {"steps": 1, "batchSize": 8},
    "inference": {"engine": "transformers"},
    "images": {"cacheRef": "shared"},
    "storage": {"claimName": "runs", "subPath": "r"},
    "tasks": {"train": {"dataset": "gauge", "split": "train"}},
}
"""So that there are sandboxes as long as one looks."""
SOON_SECONDS = 120.0


@dataclass(frozen=True)
class Page:
    """What a browser gets of it."""

    address: str

    def ask(self, path: str, token: str | None = TOKEN, method: str = "GET") -> tuple[int, bytes]:
        """Status and body."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{self.address}{path}", headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def get(self, path: str) -> Any:
        status, body = self.ask(path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def until(self, path: str, holds: Callable[[Any], object]) -> Any:
        """The first answer that is so."""
        give_up_at = time.monotonic() + SOON_SECONDS
        while not holds(found := self.get(path)):
            assert time.monotonic() < give_up_at, found
            time.sleep(0.5)
        return found


@pytest.fixture(scope="module")
def upgrade(
    cluster: TestCluster, commands: Commands, installation: Installation
) -> Callable[[Mapping[str, Any]], None]:
    """`helm upgrade` with values of the page, from the image that the cluster is given of it."""
    commands.cluster_tool("images", "build", "cli", "--checkout", str(CHECKOUT))
    [image] = Native(cluster.name).bring(commands, ["localhost/sweyard/cli:dev"])

    def run(values: Mapping[str, Any]) -> None:
        text = yaml.safe_dump({"images": {"cli": image_value(image)}, "ui": dict(values)})
        flags = ("--namespace", SYSTEM_NAMESPACE, "--reuse-values", "--wait", "--timeout", "600s")
        commands.run("helm", "upgrade", "sweyard", CHART, *flags, "--values", "-", input_text=text)

    return run


@pytest.fixture(scope="module")
def page(
    installation: Installation, commands: Commands, furnished_once: str, upgrade: Callable[[Mapping[str, Any]], None]
) -> Iterator[Page]:
    """Up before the run `r`, which has ended a step in a folder of the claim that the page shows."""
    installation.kubectl("-n", furnished_once, "apply", "-f", "-", input_text=json.dumps(CLAIM))
    installation.kubectl("-n", furnished_once, "create", "secret", "generic", SECRET, f"--from-literal=token={TOKEN}")
    upgrade({"enabled": True, "namespace": furnished_once, "tokenSecret": SECRET, "claimName": "runs"})
    installation.apply_run(furnished_once, WITHOUT_END)
    installation.wait_for_step(furnished_once, 1, deadline_seconds=600)
    with forwarded(commands, furnished_once) as address:
        yield Page(address)
    upgrade({"enabled": False, "claimName": ""})
    installation.clear(furnished_once)
    installation.kubectl("-n", furnished_once, "delete", f"secret/{SECRET}", "persistentvolumeclaim/runs")


@contextlib.contextmanager
def forwarded(commands: Commands, namespace: str) -> Iterator[str]:
    """The Service's address on this machine."""
    command = ["kubectl", "-n", namespace, "port-forward", "service/sweyard-ui", ":8700"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(commands.environment)) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
            assert found
            yield f"http://{found[0]}"
        finally:
            process.terminate()


def test_a_run_is_seen_with_its_sandboxes_images_and_attempts(page: Page, furnished_once: str) -> None:
    where = furnished_once
    [run] = [run for run in page.get("/api/runs") if run["where"] == where]
    assert (run["name"], run["phase"], run["total_steps"]) == ("r", "Running", 1_000)
    assert page.get(f"/api/runs/{where}/r")["facts"]

    def claimed(pool: Any) -> set[str]:
        return {cell["node"] for cell in pool["cells"] if cell["state"] == "claimed"}

    assert claimed(page.until(f"/api/pools/{where}/r", claimed)) == {"node1"}
    [cache] = [cache for cache in page.get("/api/caches") if cache["where"] == where]
    assert (cache["name"], cache["nodes"][0]["states"]) == ("shared", ["cached"])

    attempts = page.get(f"/api/runs/{where}/r/attempts?text=gauge")
    assert attempts["count"] > 0
    identity = attempts["rows"][0]["attempt_id"]
    attempt = page.get(f"/api/runs/{where}/r/attempt?id={identity}")
    assert {message["kind"] for message in attempt["messages"]} >= {"prompt", "reply"}
    tokens = page.get(f"/api/runs/{where}/r/tokens?id={identity}")
    assert (tokens["without_texts"], len(tokens["segments"]) > 0) == ("", True)
    figures = page.get(f"/api/runs/{where}/r/figures")
    assert figures["phases"]["rl"]["figures"]["rollout/reward_mean"]


def test_a_folder_is_written_by_the_charts_own_user_and_read_by_the_page(
    installation: Installation, page: Page, furnished_once: str
) -> None:
    """The trainer above is root, to use this machine's environment; one from its image is not, nor is the page."""
    report = json.dumps({"phase": "rl", "step": 3, "totalSteps": 5})
    user = {"runAsUser": RUN_AS_USER, "runAsGroup": RUN_AS_USER, "fsGroup": RUN_AS_USER, "runAsNonRoot": True}
    container = {
        "name": "trainer",
        "image": installation.task_image,
        "command": ["sh", "-c", 'mkdir -p "$0/metrics" && printf %s "$1" > "$0/progress.json"', "/storage", report],
        "volumeMounts": [{"name": "storage", "mountPath": "/storage", "subPath": "later"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    volume = {"name": "storage", "persistentVolumeClaim": {"claimName": "runs"}}
    spec = {"restartPolicy": "Never", "securityContext": user, "containers": [container], "volumes": [volume]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writer"}, "spec": spec}
    installation.kubectl("-n", furnished_once, "apply", "-f", "-", input_text=json.dumps(pod))
    runs = page.until("/api/runs", lambda runs: any(run["name"] == "later" and run.get("step") for run in runs))
    [run] = [run for run in runs if run["name"] == "later"]
    assert (run["step"], run["total_steps"]) == (3, 5)
    installation.kubectl("-n", furnished_once, "delete", "pod", "writer")


def test_the_token_is_in_no_log(installation: Installation, page: Page, furnished_once: str) -> None:
    assert page.ask("/healthz", token=None)[0] == 200
    told = installation.kubectl("-n", furnished_once, "logs", "deployment/sweyard-ui")
    assert ("http://" in told, TOKEN in told) == (True, False)


def test_many_look_while_the_run_writes_and_a_spoiled_file_hides_nothing(
    installation: Installation, page: Page, furnished_once: str
) -> None:
    run = f"/api/runs/{furnished_once}/r"
    paths = [f"{run}{path}" for path in ("", "/figures", "/attempts", "/attempts?text=gauge", "/wave")]
    with ThreadPoolExecutor(16) as clients:
        assert all(clients.map(page.get, [path for path in paths for _ in range(20)]))
    assert page.get(f"{run}/attempts")["unread"] == []
    installation.write_volume(furnished_once, "runs", "r/rollouts/step-999999.parquet", "spoiled")
    spoiled = page.until(f"{run}/attempts", lambda answer: answer["unread"])
    assert "step-999999.parquet is no rollout file" in spoiled["unread"][0]
    assert spoiled["of"] > 0


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        pytest.param({"path": "/api/runs", "token": None}, 401, id="no token"),
        pytest.param({"path": "/api/runs", "token": "wrong"}, 401, id="a wrong token"),
        pytest.param({"path": "/healthz", "token": None}, 200, id="the kubelet"),
        pytest.param({"path": "/api/runs", "method": "DELETE"}, 405, id="a deletion"),
        pytest.param({"path": "/static/..%2f..%2f..%2fetc%2fpasswd"}, 404, id="a way out"),
        pytest.param({"path": "/api/runs/_/..%2f..%2fetc/figures"}, 404, id="another way out"),
        pytest.param({"path": f"/api/runs?{'x' * 60_000}"}, 200, id="a huge question"),
    ],
)
def test_who_has_the_token_reads_and_nobody_does_more(page: Page, asked: dict[str, Any], status: int) -> None:
    assert page.ask(**asked)[0] == status
