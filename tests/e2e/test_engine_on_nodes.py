"""An engine whose two pods lie on two real nodes, one of which is drained or lost: the trainer goes on without it.

Its nodes have one GPU each, which nobody has a device of, and a taint that keeps everything else off them.
"""

import time
from collections.abc import Callable, Iterator, Set
from functools import partial
from typing import Any

import pytest
from tests.e2e.installation import Installation
from tests.e2e.nodes import GPU, RACK
from tests.e2e.test_engine_scaling import until
from tests.e2e.test_engine_spanning import DEADLINE_SECONDS, check_weights, containers, is_ready
from tests.e2e.test_engine_spanning import SPEC as SPANNING
from tests.e2e.test_fault_matrix import steps_in, trainer_paused
from tests.e2e.test_run_on_cluster import until_gone

pytestmark = [pytest.mark.kubelet, pytest.mark.slow, pytest.mark.timeout(3_600)]

Record = Callable[[str, object], None]

TAINT = "example.com/engines"
STEPS = 10
SPEC: dict[str, Any] = {
    **SPANNING,
    "steps": STEPS,
    "storage": {"accessMode": "ReadWriteMany"},
    "inference": {
        **SPANNING["inference"],
        "topologyKey": RACK,
        "resources": {"limits": {GPU: "1"}},
        "tolerations": [{"key": TAINT, "operator": "Exists"}],
    },
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


@pytest.fixture
def spare(three_nodes: Installation, namespace: str) -> str:
    """The operator's node, with a GPU as the others have, in another rack. The others are engines' own."""
    nodes = three_nodes.nodes
    (operator,) = three_nodes.pods("sweyard-system", "operator")
    spare = str(operator["spec"]["nodeName"])
    rack = [name for name in nodes.names if name != spare]
    nodes.give_gpus(nodes.names)
    nodes.label(rack, RACK, "a")
    nodes.taint(rack, TAINT)
    return spare


def test_an_engine_one_of_whose_pods_is_drained_comes_back_in_its_rack(
    three_nodes: Installation, namespace: str, spare: str, record_property: Record
) -> None:
    given = three_nodes.left_in(namespace)
    first, second = begin(three_nodes, namespace, spare)

    with trainer_paused(three_nodes, namespace):
        three_nodes.nodes.drain(second)
    began = time.monotonic()
    until("no other place in its rack", lambda: is_unschedulable(three_nodes, namespace))
    three_nodes.nodes.label([spare], RACK, "a")
    until_whole(three_nodes, namespace, [first, spare], began)
    check_weights(three_nodes, namespace)
    check_end(three_nodes, namespace, given, record_property)


def test_an_engine_comes_back_without_the_lost_node_of_one_of_its_pods(
    three_nodes: Installation, namespace: str, spare: str, record_property: Record
) -> None:
    given = three_nodes.left_in(namespace)
    first, second = begin(three_nodes, namespace, spare)

    with trainer_paused(three_nodes, namespace):
        three_nodes.nodes.cut_off(second)
    began = time.monotonic()
    three_nodes.nodes.label([spare], RACK, "a")
    until_whole(three_nodes, namespace, [first, spare], began)
    check_weights(three_nodes, namespace)
    check_end(three_nodes, namespace, given, record_property)


def begin(installation: Installation, namespace: str, spare: str) -> list[str]:
    """The nodes of the engine, by pod, once it has served a step."""
    installation.apply_run(namespace, SPEC)
    installation.wait_for_step(namespace, 1, DEADLINE_SECONDS)
    found = engine_nodes(installation, namespace)
    assert sorted([*found, spare]) == sorted(installation.nodes.names)
    check_weights(installation, namespace)
    return found


def engine_nodes(installation: Installation, namespace: str) -> list[str]:
    """By pod; empty for one without a node."""
    return [str(pod["spec"].get("nodeName", "")) for pod in installation.pods(namespace, "engine")]


def is_unschedulable(installation: Installation, namespace: str) -> bool:
    """Whether the scheduler finds no node for one of the pods."""
    conditions = [one for pod in installation.pods(namespace, "engine") for one in pod["status"].get("conditions", ())]
    return any(one.get("reason") == "Unschedulable" for one in conditions)


def until_whole(installation: Installation, namespace: str, nodes: list[str], began: float) -> None:
    """Until the engine serves from these nodes. The pod that serves is Ready until it ends for want of the other."""
    until("its pods on these nodes", lambda: engine_nodes(installation, namespace) == nodes)
    print(f"both pods had nodes again after {time.monotonic() - began:.0f} s", flush=True)
    until("the end of the pod that serves", lambda: containers(installation, namespace)[0]["restartCount"])
    until("a ready engine", partial(is_ready, installation, namespace), DEADLINE_SECONDS)
    print(f"the engine was ready after {time.monotonic() - began:.0f} s", flush=True)


def check_end(installation: Installation, namespace: str, given: Set[str], record_property: Record) -> None:
    """All steps, each once, by one attempt; nothing left once it is deleted."""
    status = installation.wait_for_end(namespace, DEADLINE_SECONDS)
    record_property("restarts", status["restarts"])
    record_property("attempts", status["attempts"])
    assert (status["phase"], status["step"]) == ("Succeeded", STEPS), status
    assert (status["attempts"], status["restarts"]) == (1, 0), status
    assert steps_in(installation, namespace, "r") == {step: 1 for step in range(1, STEPS + 1)}
    installation.nodes.heal()  # what it held there is looked for too
    installation.kubectl("-n", namespace, "delete", "trainingrun", "r")
    until_gone(installation, namespace, None, given)
