"""The page's view of a cluster, and stopping a run, against a real API server."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import DOCUMENT

from sweyard_api.constants import ANNOTATION_HOLDER, ANNOTATION_IMAGE, API_VERSION, LABEL_COMPONENT, LABEL_POOL
from sweyard_cli.cluster.connection import Connection, connect
from sweyard_cli.cluster.suspension import set_suspended
from sweyard_cli.errors import UserError
from sweyard_cli.ui.cluster import ClusterView
from sweyard_cli.ui.not_there import NotThereError
from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver

REPOSITORY = Path(__file__).parents[3]
SOON_SECONDS = 30.0


@pytest.fixture
def connection(kinds: TestCluster) -> Iterator[Connection]:
    name = f"page-{uuid.uuid4().hex[:8]}"
    kinds.kubectl("create", "namespace", name)
    yield connect(name, str(kinds.kubeconfig))
    kinds.kubectl("delete", "namespace", name, "--wait=false")


Apply = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def make(kinds: TestCluster, connection: Connection) -> Apply:
    """Make an object; as the API server has it."""

    def create(manifest: dict[str, Any]) -> dict[str, Any]:
        told = kinds.kubectl(
            "-n", connection.namespace, "create", "-o", "json", "-f", "-", input_text=json.dumps(manifest)
        )
        return dict(json.loads(told))

    return create


def sandbox(pool: dict[str, Any], slot: int, holder: str) -> dict[str, Any]:
    owner = {"apiVersion": API_VERSION, "kind": "RolloutPool", "name": "p", "controller": True}
    metadata = {
        "name": f"p-{slot}",
        "labels": {LABEL_POOL: "p", LABEL_COMPONENT: "sandbox"},
        "annotations": {ANNOTATION_HOLDER: holder, ANNOTATION_IMAGE: "python:3.12"},
        "ownerReferences": [{**owner, "uid": pool["metadata"]["uid"]}],
    }
    spec = {"containers": [{"name": "sandbox", "image": "python:3.12"}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_sandboxes_are_followed_from_one_list_on(connection: Connection, make: Apply, kinds: TestCluster) -> None:
    kind = {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": {"name": "p"}, "spec": {"replicas": 4}}
    pool = make(kind)
    make(sandbox(pool, 0, ""))
    view = ClusterView(connection, [connection.namespace])
    [line] = view.pools()
    assert (line["name"], line["cap"]) == ("p", 4)

    def states() -> list[tuple[str, str]]:
        return [(cell["id"], cell["state"]) for cell in view.pool(connection.namespace, "p")["cells"]]

    assert states() == [("p-0", "scheduling")]
    before = view.stamps()
    make(sandbox(pool, 1, "trainer-0"))
    until(lambda: states() == [("p-0", "scheduling"), ("p-1", "claimed")])
    assert view.stamps()[f"pool {connection.namespace}/p"] != before[f"pool {connection.namespace}/p"]
    kinds.kubectl("-n", connection.namespace, "delete", "pod", "p-0", "--grace-period=0", "--force")
    until(lambda: states() == [("p-1", "claimed")])
    with pytest.raises(NotThereError, match=r"there is no RolloutPool .*/q"):
        view.pool(connection.namespace, "q")


def test_a_run_is_shown_and_is_stopped_and_goes_on(connection: Connection, make: Apply) -> None:
    make(DOCUMENT)
    make({"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": {"name": "tiny"}, "spec": {"replicas": 4}})
    view = ClusterView(connection, None, clock=lambda: 0.0)
    [line] = [line for line in view.runs() if line["where"] == connection.namespace]
    assert (line["name"], line["phase"], line["restarts"], line["spark"]) == ("tiny", "Pending", 0, [])
    assert (line["pool"], line["sandboxes"]["ready"]) == ("tiny", 0)
    assert view.run(connection.namespace, "tiny")["name"] == "tiny"
    assert [set_suspended(connection, "tiny", suspended=wanted) for wanted in (True, True, False)] == [
        True,
        False,
        True,
    ]
    with pytest.raises(UserError, match=r"TrainingRun .*/none does not exist"):
        set_suspended(connection, "none", suspended=True)
