"""Mode pods: images are held by pods of theirs, without an agent on the node."""

from typing import Any

import pytest
from tests.operator.cache.planned_cache import conditions, plan


def test_mode_pods_holds_images_without_privilege_and_reads_its_pods() -> None:
    created = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods").create
    assert "hostPath" not in str(created)
    assert created[0]["spec"]["automountServiceAccountToken"] is False
    pod = {**created[0], "status": {"containerStatuses": [{"name": "image-0", "imageID": "sha256:1"}]}}
    made = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods", pods=(pod,))
    assert conditions(made)["Ready"] == ("True", "Cached")
    assert made.delete == ()


def test_a_node_that_takes_no_holding_pod_is_told_with_the_schedulers_words() -> None:
    created = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods").create[0]
    words = "0/1 nodes are available: 1 Too many pods."
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    pod = {**created, "status": {"phase": "Pending", "conditions": [refused]}}
    made = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods", pods=(pod,))
    assert made.status is not None
    (failure,) = made.status["failures"]
    assert (failure["node"], failure["reason"], failure["message"]) == ("n1", "Unschedulable", words)
    assert conditions(made)["Ready"] == ("False", "PullsFailed")


def test_another_pull_secret_makes_other_holding_pods() -> None:
    before = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods").create[0]
    live = {**before, "metadata": {**before["metadata"], "uid": "old"}}
    made = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods", pullSecrets=["mine"], pods=(live,))
    assert [deletion.uid for deletion in made.delete] == ["old"]
    assert made.create[0]["spec"]["imagePullSecrets"] == [{"name": "mine"}]


def test_mode_pods_says_that_it_watches_no_disk() -> None:
    assert conditions(plan("a:1", images=["a:1"], mode="pods"))["DiskPressure"] == ("Unknown", "NotWatched")


def test_a_holding_pod_that_was_evicted_holds_nothing_and_is_replaced() -> None:
    created = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods").create[0]
    evicted = {
        **created,
        "metadata": {**created["metadata"], "uid": "evicted"},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "image-0", "imageID": "sha256:1"}]},
    }
    made = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods", pods=(evicted,))
    assert conditions(made)["Ready"] == ("False", "Pulling")
    assert [deletion.uid for deletion in made.delete] == ["evicted"]
    assert [pod["metadata"]["name"] for pod in made.create] == [created["metadata"]["name"]]


@pytest.mark.parametrize(
    ("status", "is_kept"),
    [
        ({"phase": "Failed", "containerStatuses": [(128, "a"), (0, "b")]}, True),
        ({"phase": "Succeeded", "containerStatuses": [(0, "a"), (0, "b")]}, True),
        ({"phase": "Failed", "containerStatuses": [(137, "a"), (0, "b")]}, False),
        ({"phase": "Failed", "containerStatuses": [(255, "a"), (255, "b")]}, False),
        ({"phase": "Failed", "reason": "Evicted", "containerStatuses": [(128, "a"), (128, "b")]}, False),
        ({"phase": "Failed", "reason": "NodeShutdown"}, False),
    ],
    ids=["no-shell", "no-sleep", "killed", "node-restarted", "evicted", "never-began"],
)
def test_images_without_a_shell_are_held_by_containers_that_do_not_run_and_are_not_tried_again(
    status: dict[str, Any], is_kept: bool
) -> None:
    images = ["a:1", "b:1"]
    created = plan(*images, nodes=("n1",), images=images, mode="pods").create[0]
    assert created["spec"]["restartPolicy"] == "Never"
    ended = [
        {"name": f"image-{number}", "imageID": digest, "state": {"terminated": {"exitCode": code}}}
        for number, (code, digest) in enumerate(status.get("containerStatuses", ()))
    ]
    pod = {**created, "metadata": {**created["metadata"], "uid": "u"}, "status": {**status, "containerStatuses": ended}}
    made = plan(*images, nodes=("n1",), images=images, mode="pods", pods=(pod,))
    assert ([deletion.uid for deletion in made.delete] == []) is is_kept
    assert (conditions(made)["Ready"] == ("True", "Cached")) is is_kept


def test_a_mode_that_was_left_leaves_nothing_behind() -> None:
    def live(manifest: Any) -> dict[str, Any]:
        return {**manifest, "metadata": {**manifest["metadata"], "uid": manifest["kind"]}}

    agent = [live(manifest) for manifest in plan("a:1", nodes=("n1",), images=["a:1"]).apply]
    config_maps = tuple(one for one in agent if one["kind"] == "ConfigMap")
    agents = tuple(one for one in agent if one["kind"] != "ConfigMap")
    made = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods", config_maps=config_maps, agents=agents)
    assert sorted(deletion.uid for deletion in made.delete) == [
        "ConfigMap",
        "DaemonSet",
        "RoleBinding",
        "ServiceAccount",
    ]
    assert made.apply == ()
    pods = tuple(map(live, made.create))
    back = plan("a:1", nodes=("n1",), images=["a:1"], config_maps=config_maps, agents=agents, pods=pods)
    assert [deletion.uid for deletion in back.delete] == ["Pod"]
