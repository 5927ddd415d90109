"""A gang whose ranks lie on several real nodes, one of which is drained, lost, or not to be had.

Each node has one GPU, which nobody has a device of: it is what puts each rank on a node of its own.
"""

import time
from collections.abc import Callable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.e2e.installation import Installation
from tests.e2e.nodes import GPU, RACK
from tests.e2e.test_drain import RARELY, began_again_at
from tests.e2e.test_fault_matrix import DEADLINE_SECONDS, SHORT, STEPS, TRAINER, steps_in
from tests.e2e.test_run_on_cluster import until_gone

from sweyard_cluster.errors import ClusterError

pytestmark = [pytest.mark.kubelet, pytest.mark.slow, pytest.mark.timeout(1_800)]

Record = Callable[[str, object], None]

GRACE_SECONDS = 30
"""Of a rank on a lost node, which has 60 s more until it is deleted by force: sooner than Kubernetes would evict it."""
TRAINER_OPTIONS: dict[str, Any] = {"exclusiveNodes": True, "resources": {"limits": {GPU: "1"}}}
GANG: dict[str, Any] = {
    **SHORT,
    "images": {"cacheRef": "shared"},
    "inference": {"engine": "transformers"},
    "storage": {"accessMode": "ReadWriteMany"},
}


@pytest.fixture(scope="module")
def yard(three_nodes: Installation) -> str:
    """A namespace of the three nodes, with the data set, and its images on them."""
    return three_nodes.make_namespace_with_cache()


@pytest.fixture
def namespace(three_nodes: Installation, yard: str) -> Iterator[str]:
    """The yard; afterwards without a run, and with all nodes as they were."""
    yield yard
    three_nodes.nodes.reset()
    three_nodes.clear(yard)


def test_ranks_on_nodes_of_one_rack_train_as_one(
    three_nodes: Installation, namespace: str, record_property: Record
) -> None:
    given, nodes = three_nodes.left_in(namespace), three_nodes.nodes
    rack = nodes.names[1:]
    nodes.give_gpus(nodes.names)
    nodes.label(rack, RACK, "a")
    apply_gang(three_nodes, namespace, topologyKey=RACK)

    three_nodes.wait_for_end(namespace, DEADLINE_SECONDS)
    assert sorted(nodes_of_ranks(three_nodes, namespace, attempt=0)) == sorted(rack)
    check_end(three_nodes, namespace, given, record_property, attempts=1)


def test_a_drain_takes_one_rank_and_the_gang_goes_on_elsewhere_from_the_same_step(
    three_nodes: Installation, namespace: str, record_property: Record
) -> None:
    given, nodes = three_nodes.left_in(namespace), three_nodes.nodes
    nodes.give_gpus(nodes.names)
    apply_gang(three_nodes, namespace, checkpoint=RARELY)
    three_nodes.wait_for_step(namespace, 1, DEADLINE_SECONDS)
    step = three_nodes.status(namespace)["step"]
    first, ranks = ranks_of(three_nodes, namespace)[0], nodes_of_ranks(three_nodes, namespace, attempt=0)

    with ThreadPoolExecutor(1) as pool:
        # Rank 0 waits, and so does rank 1, which ends when rank 0 has saved.
        with three_nodes.host.paused([first["metadata"]["uid"]], TRAINER):
            draining = pool.submit(nodes.drain, ranks[1])
            until("rank 1 is evicted", lambda: "deletionTimestamp" in ranks_of(three_nodes, namespace)[1]["metadata"])
            with pytest.raises(ClusterError, match="disruption budget"):
                three_nodes.evict(namespace, first["metadata"]["name"])
        draining.result()

    three_nodes.wait_for_end(namespace, DEADLINE_SECONDS)
    assert began_again_at(three_nodes, namespace) >= step
    assert ranks[1] not in nodes_of_ranks(three_nodes, namespace, attempt=1)
    check_end(three_nodes, namespace, given, record_property, attempts=2, failure="Disrupted")


def test_a_gang_with_a_rank_too_many_holds_nothing_until_there_is_a_node_for_it(
    three_nodes: Installation, namespace: str, record_property: Record
) -> None:
    given, nodes = three_nodes.left_in(namespace), three_nodes.nodes
    nodes.give_gpus(nodes.names)
    nodes.cordon(nodes.names[2])
    apply_gang(three_nodes, namespace, placementDeadlineSeconds=20, replicas=3)

    three_nodes.wait_for_reason(namespace, "Unplaced", {"PlacementDeadline"}, DEADLINE_SECONDS)
    costly = {"pods", "jobs", "statefulsets", "deployments", "rolloutpools", "leases"}
    until_gone(three_nodes, namespace, costly, given, deadline_seconds=180)  # far less than the ranks' grace period
    until("the ranks are gone", lambda: ranks_of(three_nodes, namespace) == [])
    nodes.uncordon(nodes.names[2])

    three_nodes.wait_for_end(namespace, DEADLINE_SECONDS)
    assert sorted(nodes_of_ranks(three_nodes, namespace, attempt=1)) == sorted(nodes.names)
    check_end(three_nodes, namespace, given, record_property, attempts=2)


@pytest.mark.parametrize("rank", [1, 0], ids=["rank 1", "rank 0"])
def test_a_gang_goes_on_without_the_lost_node_of(
    rank: int, three_nodes: Installation, namespace: str, record_property: Record
) -> None:
    given, nodes = three_nodes.left_in(namespace), three_nodes.nodes
    operators = {pod["spec"]["nodeName"] for pod in three_nodes.pods("sweyard-system", "operator")}
    nodes.give_gpus(set(nodes.names) - operators)
    apply_gang(three_nodes, namespace, podOverrides={"terminationGracePeriodSeconds": GRACE_SECONDS})
    three_nodes.wait_for_step(namespace, 1, DEADLINE_SECONDS)
    lost = nodes_of_ranks(three_nodes, namespace, attempt=0)[rank]
    nodes.power_off(lost)
    nodes.give_gpus(operators)

    three_nodes.wait_for_end(namespace, DEADLINE_SECONDS)
    assert began_again_at(three_nodes, namespace) >= 1
    assert lost not in nodes_of_ranks(three_nodes, namespace, attempt=1)
    assert "is lost" in three_nodes.status(namespace)["lastFailure"]["message"]
    nodes.heal()  # its kubelet ends what it finds of the gang
    check_end(three_nodes, namespace, given, record_property, attempts=2, failure="Disrupted")


def apply_gang(installation: Installation, namespace: str, *, replicas: int = 2, **fields: Any) -> None:
    """`fields` of the run, or of its trainer."""
    own = {name: fields.pop(name) for name in ("topologyKey", "podOverrides") if name in fields}
    trainer = {**TRAINER_OPTIONS, "replicas": replicas, **own}
    installation.apply_run(namespace, {**GANG, "trainer": trainer, **fields})


def ranks_of(installation: Installation, namespace: str, attempt: int = 0) -> list[dict[str, Any]]:
    """The pods of an attempt, by rank."""
    pods = [pod for pod in installation.pods(namespace, "trainer") if is_of(pod, attempt)]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


def is_of(pod: dict[str, Any], attempt: int) -> bool:
    return bool(pod["metadata"]["labels"]["sweyard.dev/attempt"] == str(attempt))


def nodes_of_ranks(installation: Installation, namespace: str, *, attempt: int) -> list[str]:
    """By rank."""
    return [str(pod["spec"]["nodeName"]) for pod in ranks_of(installation, namespace, attempt)]


def until(what: str, holds: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < give_up_at, what
        time.sleep(0.5)


def check_end(
    installation: Installation,
    namespace: str,
    given: Set[str],
    record_property: Record,
    *,
    attempts: int,
    failure: str = "",
) -> None:
    """All steps, each once; no restart spent; nothing left once it is deleted."""
    status = installation.status(namespace)
    seen = {
        "attempts": status["attempts"],
        "restarts": status["restarts"],
        "failure": status.get("lastFailure", {}).get("reason", ""),
    }
    for name, value in seen.items():
        record_property(name, value)
    assert (status["phase"], status["step"]) == ("Succeeded", STEPS), status
    assert seen == {"attempts": attempts, "restarts": 0, "failure": failure}, status
    assert steps_in(installation, namespace, "r") == {step: 1 for step in range(1, STEPS + 1)}
    installation.kubectl("-n", namespace, "delete", "trainingrun", "r")
    until_gone(installation, namespace, None, given)
