"""What a trainer may do to the sandboxes of a pool: claim a free one, run commands in it, delete its own."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.chart.admission.accounts import (
    HOLDER,
    NAMESPACE,
    POD,
    PODS,
    Account,
    Create,
    RefusedError,
    claim,
    pod,
)

from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize("holder", [POD, f"{POD}-0", f"{POD}-12"], ids=["pod", "first of several", "a later one"])
def test_a_free_sandbox_can_be_claimed(holder: str, trainer: Account, sandbox: Callable[..., str]) -> None:
    claimed = json.loads(trainer.patch(sandbox(""), claim(holder)))
    assert claimed["metadata"]["annotations"][HOLDER] == holder


@pytest.mark.parametrize("holder", ["another", "", f"{POD}x", f"{POD}-a", f"{POD}-", POD[:-1]])
def test_nobody_claims_in_another_name(holder: str, trainer: Account, sandbox: Callable[..., str]) -> None:
    with pytest.raises(RefusedError, match=f"the holder must be {POD} or {POD}-<n>"):
        trainer.patch(sandbox(""), claim(holder))


@pytest.mark.parametrize("held_by", ["another-0", POD], ids=["somebody", "itself"])
def test_a_held_sandbox_is_not_taken(held_by: str, trainer: Account, sandbox: Callable[..., str]) -> None:
    operations = claim(POD)[1:]
    with pytest.raises(RefusedError, match=f"is held by {held_by}: claim another"):
        trainer.patch(sandbox(held_by), operations)


@pytest.mark.parametrize(
    "extra",
    [
        {"op": "add", "path": "/metadata/labels/more", "value": "x"},
        {"op": "replace", "path": "/metadata/labels/sweyard.dev~1pool", "value": "other"},
        {"op": "add", "path": "/metadata/annotations/more", "value": "x"},
        {"op": "remove", "path": "/metadata/annotations/kept"},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/stay"]},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "other:1"},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 60},
        {"op": "add", "path": "/metadata/ownerReferences",
         "value": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}]},
    ],
    ids=["label", "pool", "annotation", "annotation gone", "finalizer", "image", "deadline", "owner"],
)  # fmt: skip
def test_a_claim_changes_nothing_else(
    extra: dict[str, Any], trainer: Account, create: Create, sandbox: Callable[..., str], governed: TestCluster
) -> None:
    path = sandbox("")
    governed.kubectl("-n", NAMESPACE, "annotate", "pod", path.rpartition("/")[2], "kept=1")
    with pytest.raises(RefusedError, match="and change nothing else"):
        trainer.patch(path, [*claim(POD), extra])
    trainer.patch(path, claim(POD))


def test_pods_outside_pools_are_out_of_reach(trainer: Account, create: Create) -> None:
    create(pod("web-0", {"app": "web"}, holder=""))
    with pytest.raises(RefusedError, match="is no sandbox"):
        trainer.patch(f"{PODS}/web-0", claim(POD))
    with pytest.raises(RefusedError, match="is no sandbox"):
        trainer.call("DELETE", f"{PODS}/web-0")


@pytest.mark.parametrize("holder", [POD, f"{POD}-3"])
def test_a_holder_deletes_its_own(holder: str, trainer: Account, sandbox: Callable[..., str]) -> None:
    trainer.call("DELETE", sandbox(holder))


@pytest.mark.parametrize("holder", ["", "another", f"{POD}-x"], ids=["free", "another's", "look-alike"])
def test_a_holder_deletes_no_other(holder: str, trainer: Account, sandbox: Callable[..., str]) -> None:
    with pytest.raises(RefusedError, match="a holder may delete only its own"):
        trainer.call("DELETE", sandbox(holder))


def test_pods_are_not_deleted_by_the_dozen(trainer: Account) -> None:
    with pytest.raises(RefusedError, match="cannot deletecollection"):
        trainer.call("DELETE", PODS)


def test_commands_run_in_sandboxes(trainer: Account, sandbox: Callable[..., str]) -> None:
    # Without a node there is nothing to connect to: that answer comes after admission has passed.
    with pytest.raises(RefusedError, match="does not have a host assigned"):
        trainer.call("POST", f"{sandbox(POD)}/exec?container=sandbox&command=true&stdout=true")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("pool-9000/exec?container=other", "only in the container named sandbox"),
        ("pool-9000/exec?command=true", "only in the container named sandbox"),
        ("server/exec?container=sandbox", "is no sandbox of a pool that this account may use"),
        ("api-6d4-x7k2p/exec?container=sandbox", "is no sandbox of a pool that this account may use"),
    ],
    ids=["other container", "no container", "single pod", "pod of a Deployment"],
)
def test_commands_run_nowhere_else(
    path: str, sentence: str, trainer: Account, create: Create, governed: TestCluster
) -> None:
    name = path.partition("/")[0]
    create(pod(name, {"app": "other"}))
    try:
        with pytest.raises(RefusedError, match=sentence):
            trainer.call("POST", f"{PODS}/{path}&stdout=true")
    finally:
        governed.kubectl("-n", NAMESPACE, "delete", "pod", name, "--wait=false", "--grace-period=0")
