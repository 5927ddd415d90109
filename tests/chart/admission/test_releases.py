"""A holder may say once, on a sandbox it holds, that it is done with a container; it can free no sandbox itself."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.chart.admission.accounts import CLAIMED_AT, HOLDER, POD, Account, RefusedError

pytestmark = pytest.mark.apiserver

RELEASE = "sweyard.dev/release"


def annotate(name: str, value: str | None) -> dict[str, Any]:
    path = f"/metadata/annotations/{name.replace('/', '~1')}"
    return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}


DONE = annotate(RELEASE, "containerd://1")


def test_a_holder_releases_what_it_holds(trainer: Account, sandbox: Callable[..., str]) -> None:
    released = json.loads(trainer.patch(sandbox(POD), [DONE]))
    assert released["metadata"]["annotations"][RELEASE] == "containerd://1"
    assert released["metadata"]["annotations"][HOLDER] == POD


@pytest.mark.parametrize(
    ("held_by", "operations"),
    [
        ("another-0", [DONE]),
        ("", [DONE]),
        ("", [annotate(HOLDER, POD), DONE]),
        (POD, [DONE, annotate(HOLDER, "")]),
        (POD, [DONE, annotate(HOLDER, f"{POD}-1")]),
        (POD, [DONE, annotate(CLAIMED_AT, "2030-01-01T00:00:00Z")]),
        (POD, [DONE, annotate("sweyard.dev/recycled", "0")]),
        (POD, [DONE, {"op": "replace", "path": "/spec/containers/0/image", "value": "other:1"}]),
    ],
    ids=["another's", "free", "with the claim", "free it", "hand it on", "time", "count", "image"],
)
def test_a_release_does_nothing_else(
    held_by: str, operations: list[dict[str, Any]], trainer: Account, sandbox: Callable[..., str]
) -> None:
    with pytest.raises(RefusedError):
        trainer.patch(sandbox(held_by), operations)


@pytest.mark.parametrize("value", ["containerd://2", None], ids=["another container", "taken back"])
def test_a_release_stands(value: str | None, trainer: Account, sandbox: Callable[..., str]) -> None:
    path = sandbox(POD)
    trainer.patch(path, [DONE])
    with pytest.raises(RefusedError, match="release by deleting or by the annotation"):
        trainer.patch(path, [annotate(RELEASE, value)])


def test_a_released_sandbox_can_still_be_deleted_by_its_holder(trainer: Account, sandbox: Callable[..., str]) -> None:
    path = sandbox(POD)
    trainer.patch(path, [DONE])
    assert json.loads(trainer.call("DELETE", path))["metadata"]["annotations"][RELEASE] == "containerd://1"
