"""What the pool client reads and decides, without any server."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.errors import FailureReason, SandboxEndedError, WaitingReason
from sweyard_sandbox.pool.credentials import CredentialsError, load_in_cluster, load_kubeconfig
from sweyard_sandbox.pool.demand import merge_demand
from sweyard_sandbox.pool.pods import SandboxPod, explain_death, parse_pod
from sweyard_sandbox.pool.store import PodStore
from sweyard_sandbox.pool.waiting_reasons import Want, explain_waiting


def pod(status: dict[str, Any] | None = None, uid: str = "u", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p-0", "uid": uid, **metadata},
        "spec": {"containers": [{"name": "sandbox", "image": "i:1"}]},
        "status": status or {"phase": "Running"},
    }


def terminated(**how: Any) -> dict[str, Any]:
    return {"phase": "Failed", "containerStatuses": [{"name": "sandbox", "state": {"terminated": how}}]}


def disrupted(reason: str) -> dict[str, Any]:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": f"by {reason}"}
    return {"phase": "Running", "conditions": [condition]}


LEAVING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        pytest.param(None, FailureReason.DELETED, "no longer exists", id="gone"),
        pytest.param(pod(uid="other"), FailureReason.DELETED, "no longer exists", id="another-of-the-name"),
        pytest.param(pod(**LEAVING), FailureReason.DELETED, "being deleted", id="deleted"),
        pytest.param(
            pod(terminated(reason="OOMKilled", exitCode=137)), FailureReason.OOM_KILLED, "memory", id="out-of-memory"
        ),
        pytest.param(
            pod({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}),
            FailureReason.EVICTED,
            "low on resource: memory",
            id="evicted",
        ),
        pytest.param(
            pod(terminated(exitCode=137) | {"reason": "Evicted", "message": "The node was low on resource"}),
            FailureReason.EVICTED,
            "The node was low on resource",
            id="evicted-with-a-dead-container",
        ),
        pytest.param(pod({"reason": "NodeLost"}, **LEAVING), FailureReason.NODE_LOST, "NodeLost", id="node-lost"),
        pytest.param(
            pod(disrupted("DeletionByTaintManager"), **LEAVING), FailureReason.NODE_LOST, "TaintManager", id="taint"
        ),
        pytest.param(
            pod(disrupted("PreemptionByScheduler"), **LEAVING), FailureReason.EVICTED, "Scheduler", id="preempted"
        ),
        pytest.param(
            pod({"phase": "Failed", "reason": "DeadlineExceeded", "message": "was active longer"}),
            FailureReason.ERROR,
            "DeadlineExceeded: was active longer",
            id="lifetime",
        ),
        pytest.param(pod(terminated(exitCode=3, reason="Error")), FailureReason.ERROR, "code 3", id="ended"),
        pytest.param(
            pod(terminated(exitCode=143, reason="Error")),
            FailureReason.ENDED_FROM_WITHIN,
            "first process",
            id="ended-from-within",
        ),
        pytest.param(
            pod({"phase": "Failed", "reason": "Evicted", "message": "Pod storage usage exceeds the total limit 8Gi. "}),
            FailureReason.ENDED_FROM_WITHIN,
            "exceeds the total limit",
            id="filled-its-disk",
        ),
        pytest.param(
            pod(terminated(exitCode=143, reason="Error"), **LEAVING),
            FailureReason.DELETED,
            "deleted",
            id="ended-by-deletion",
        ),
    ],
)
def test_a_death_is_typed_with_the_clusters_words(found: Any, reason: FailureReason, words: str) -> None:
    error = explain_death(found, "u")
    assert error is not None
    assert error.reason is reason
    assert words in error.message


@pytest.mark.parametrize("status", [{"phase": "Running"}, disrupted("PreemptionByScheduler")])
def test_a_living_pod_has_no_cause_of_death(status: dict[str, Any]) -> None:
    assert explain_death(pod(status), "u") is None


@pytest.mark.parametrize("code", [143, 137])
def test_why_all_containers_ended_is_not_guessed_before_the_kubelet_says_it(code: int) -> None:
    """A kubelet that evicts ends the containers first, and gives its reason together with the phase."""
    ended = terminated(exitCode=code, reason="Error")
    assert explain_death(pod(ended | {"phase": "Running"}), "u") is None
    evicted = explain_death(
        pod(ended | {"reason": "Evicted", "message": "The node was low on resource: memory. "}), "u"
    )
    assert evicted is not None
    assert evicted.reason is FailureReason.EVICTED


def test_a_container_that_ended_beside_others_that_run_is_a_death() -> None:
    status = terminated(exitCode=143, reason="Error") | {"phase": "Running"}
    status["containerStatuses"].append({"name": "other", "state": {"running": {}}})
    assert isinstance(explain_death(pod(status), "u"), SandboxEndedError)


def test_the_image_is_the_one_that_was_asked_for() -> None:
    mirrored = pod(annotations={"sweyard.dev/holder": "", "sweyard.dev/image": "asked:1"})
    assert parse_pod(mirrored).image == "asked:1"
    assert parse_pod(pod()).image == "i:1"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "remove", "take", "give_back"]),
            st.integers(0, 4),
            st.sampled_from(["a", "b"]),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_a_pod_is_never_offered_twice_and_only_while_free(steps: list[tuple[str, int, str, bool]]) -> None:
    store, taken = PodStore(random.Random(0)), set[str]()
    known: dict[str, SandboxPod] = {}
    for verb, number, image, is_free in steps:
        uid = f"u{number}"
        if verb == "put":
            # A pod's image never changes.
            known[uid] = SandboxPod(
                uid, uid, known[uid].image if uid in known else image, "" if is_free else "x", True, False
            )
            store.put(known[uid])
        elif verb == "remove":
            store.remove(uid)
            known.pop(uid, None)
            taken.discard(uid)
        elif verb == "give_back":
            store.give_back(uid)
            taken.discard(uid)
        elif (pod := store.take(image)) is not None:
            assert pod.uid not in taken
            assert known[pod.uid].is_free
            assert pod.image == image
            taken.add(pod.uid)
        for each in ("a", "b"):
            free = [p for p in known.values() if p.is_free and p.image == each and p.uid not in taken]
            assert store.num_free(each) == len(free)


@pytest.mark.parametrize(
    ("announced", "waiting", "merged"),
    [
        ([], [], []),
        (["a", "b"], [], ["a", "b"]),
        ([], ["a", "a"], ["a", "a"]),
        (["a", "b"], ["a"], ["a", "b"]),
        (["a"], ["a", "a", "c"], ["a", "c", "a"]),
    ],
)
def test_demand_covers_what_waits(announced: list[str], waiting: list[str], merged: list[str]) -> None:
    assert merge_demand(announced, waiting) == merged


def test_waiting_is_explained() -> None:
    deaf = explain_waiting(Want("i:1"), pool=None, counts={"starting": 2}, watch_error="refused")
    assert deaf.reason is WaitingReason.API_UNREACHABLE
    assert "refused" in deaf.message
    assert "2 starting" in deaf.message


def write_kubeconfig(path: Path, user: dict[str, Any], server: str = "http://127.0.0.1:1") -> Path:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


async def test_tokens_are_fixed_read_from_a_file_or_asked_of_a_plugin(tmp_path: Path) -> None:
    fixed = load_kubeconfig(write_kubeconfig(tmp_path / "a", {"token": "t"}))
    assert (fixed.server, fixed.namespace, await fixed.token_source.token(0)) == ("http://127.0.0.1:1", "ns", "t")
    (tmp_path / "token").write_text("one\n")
    filed = load_kubeconfig(write_kubeconfig(tmp_path / "b", {"tokenFile": "token"})).token_source
    assert await filed.token(1000) == "one"
    (tmp_path / "token").write_text("two\n")
    assert await filed.token(1030) == "one"
    assert await filed.token(1061) == "two"
    script = 'echo "{\\"status\\": {\\"token\\": \\"$WHO\\"}}"'
    plugin: dict[str, Any] = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
    plugin["env"] = [{"name": "WHO", "value": "me"}]
    asked = load_kubeconfig(write_kubeconfig(tmp_path / "c", {"exec": plugin}))
    assert await asked.token_source.token(0) == "me"


def test_a_missing_entry_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="no context named 'other'"):
        load_kubeconfig(write_kubeconfig(tmp_path / "a", {}), "other")


def test_outside_of_a_pod_there_are_no_credentials_of_one() -> None:
    with pytest.raises(CredentialsError, match="KUBERNETES_SERVICE_HOST"):
        load_in_cluster({})


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": f"words on {reason}"}


def settled(*conditions: dict[str, str], claimed: int = 0) -> dict[str, Any]:
    fine = condition("Ready", "True", "SandboxesReady")
    return {"spec": {"replicas": 4}, "status": {"claimed": claimed, "conditions": [fine, *conditions]}}


def waiting_pod(waits_for: WaitingReason, message: str = "") -> SandboxPod:
    return SandboxPod("p", "u", "i:1", "", False, False, waits_for, message)


QUOTA = condition("Degraded", "True", "QuotaExceeded")


@pytest.mark.parametrize(
    ("pool", "starting", "reason", "words"),
    [
        pytest.param(None, [], WaitingReason.POOL_MISSING, "no such RolloutPool", id="missing"),
        pytest.param({"spec": {}}, [], WaitingReason.OPERATOR_SILENT, "is it running?", id="silent-operator"),
        pytest.param(settled(claimed=4), [], WaitingReason.CAP_REACHED, "cap of 4", id="cap"),
        pytest.param(
            settled(condition("Progressing", "False", "AtCapacity")),
            [],
            WaitingReason.CAP_REACHED,
            "words on AtCapacity",
            id="cap-used-by-other-images",
        ),
        pytest.param(settled(QUOTA), [], WaitingReason.QUOTA_EXCEEDED, "words on QuotaExceeded", id="quota"),
        pytest.param(
            settled(condition("Degraded", "True", "Forbidden")), [], WaitingReason.FORBIDDEN, "words", id="forbidden"
        ),
        pytest.param(
            settled(condition("Degraded", "True", "OOMKilled")), [], WaitingReason.FAILING, "words", id="failing"
        ),
        pytest.param(
            settled(QUOTA),
            [waiting_pod(WaitingReason.STARTING), waiting_pod(WaitingReason.UNSCHEDULABLE, "0/3 nodes")],
            WaitingReason.UNSCHEDULABLE,
            "0/3 nodes",
            id="its-own-pods-first",
        ),
        pytest.param(settled(QUOTA), [waiting_pod(WaitingReason.PULLING)], WaitingReason.PULLING, "Pulling", id="pull"),
        pytest.param(settled(), [], WaitingReason.QUEUED, "none", id="nothing-in-the-way"),
        pytest.param(
            {**settled(), "spec": {"replicas": 0}}, [], WaitingReason.CAP_REACHED, "scaled to 0", id="scaled-to-0"
        ),
    ],
)
def test_what_a_claim_waits_for_is_typed(
    pool: dict[str, Any] | None, starting: list[SandboxPod], reason: WaitingReason, words: str
) -> None:
    waiting = explain_waiting(Want("i:1"), pool=pool, counts={}, starting=starting)
    assert waiting.reason is reason
    assert words in waiting.message


def test_a_batch_beyond_the_cap_is_told_so_and_not_that_nothing_is_free() -> None:
    waiting = explain_waiting(Want("i:1", number=3, batch=5), pool=settled(), counts={"free": 4})
    assert waiting.reason is WaitingReason.CAP_REACHED
    assert waiting.message == (
        "not 3 free of i:1: 5 at once are more than the pool's cap of 4 (spec.replicas): raise it or ask for fewer; "
        "sandboxes of all images: 4 free"
    )


def container_waiting(reason: str, *conditions: dict[str, str]) -> dict[str, Any]:
    state = {"name": "sandbox", "state": {"waiting": {"reason": reason, "message": "said"}}}
    return {"phase": "Pending", "conditions": list(conditions), "containerStatuses": [state]}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Pending"}, WaitingReason.STARTING),
        (
            {"phase": "Pending", "conditions": [condition("PodScheduled", "False", "Unschedulable")]},
            WaitingReason.UNSCHEDULABLE,
        ),
        (container_waiting("ErrImagePull"), WaitingReason.IMAGE_PULL),
        (container_waiting("ContainerCreating"), WaitingReason.STARTING),
        (
            container_waiting("ContainerCreating", condition("PodReadyToStartContainers", "True", "")),
            WaitingReason.PULLING,
        ),
        (container_waiting("CreateContainerConfigError"), WaitingReason.FAILING),
        ({"phase": "Running", "conditions": [condition("Ready", "True", "")]}, None),
        ({"phase": "Failed"}, None),
    ],
    ids=["new", "unschedulable", "unpullable", "creating", "pulling", "failing", "ready", "ended"],
)
def test_what_a_pod_waits_for_is_read_from_its_status(status: dict[str, Any], reason: WaitingReason | None) -> None:
    assert parse_pod(pod(status)).waits_for is reason


async def test_a_refused_token_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    source = load_kubeconfig(write_kubeconfig(tmp_path / "a", {"tokenFile": "token"})).token_source
    assert await source.token(1) == "old"
    (tmp_path / "token").write_text("new")
    assert await source.token(2) == "old"
    assert source.forget()
    assert await source.token(3) == "new"
    assert not load_kubeconfig(write_kubeconfig(tmp_path / "b", {"token": "t"})).token_source.forget()
