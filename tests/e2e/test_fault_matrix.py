"""One fault in the middle of a small run, whichever: the same final step, each step once, and nothing left over.

What docs/reliability.md says of real nodes; `python -m benchmarks.prove faults` runs it and writes what was seen.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.e2e.clocks import LIBRARY, build_clock, wrong_clock
from tests.e2e.host import NoVictimError
from tests.e2e.installation import Installation
from tests.e2e.obstructions import pod_denial, report_denial
from tests.e2e.test_run_on_cluster import SPEC, until_gone

from sweyard_operator.build.sandbox_pod import KEEP_ALIVE

pytestmark = [pytest.mark.kubelet, pytest.mark.slow, pytest.mark.timeout(1_800)]

DEADLINE_SECONDS = 1_200.0
STEPS = 8
"""So many that some are left, whatever the machine, when the first is known: a status is written each ten seconds."""
TRAINER, ENGINE, GATEWAY = "sweyard_trainer --config", "vllm", "sweyard_trainer.gateway"
OPERATOR = ("sweyard-system", "operator", "sweyard_operator")
SHORT: dict[str, Any] = {
    **SPEC,
    "steps": STEPS,
    "warmup": {"steps": 1, "batchSize": 8},
    "rollout": {**SPEC["rollout"], "groupsPerStep": 1, "groupSize": 2, "maxConcurrent": 2},
    "sandboxes": {"replicas": 8},
    "restart": {"backoffSeconds": 1},
    "tasks": {"train": {"dataset": "gauge", "split": "train"}},
}
"""As little as has steps, attempts and checkpoints: what takes its time is what is disturbed."""


@dataclass(frozen=True)
class Fault:
    """What is done to the run in a namespace, and how many restarts that may cost it."""

    strike: Callable[[Installation, str], None]
    max_restarts: int = 0
    engine: str = "transformers"
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the run."""
    strikes_at_once: bool = False
    """Before the run has begun, not in the middle of it."""
    prepare: Callable[[Installation, str], str] = lambda _, furnished: furnished
    """Says in which namespace: the furnished one, unless it must be another."""
    failure: str | None = None
    """The reason that the last failed attempt must have, which shows that the fault has struck."""
    failure_words: str = ""
    """What is said of it."""
    ends_with: str | None = None
    """Words of a failure that is the right end, with the last checkpoint kept; None: the run succeeds."""


def without_images(installation: Installation, _: str) -> str:
    return installation.make_namespace_without_images()


def with_small_volume(installation: Installation, furnished: str) -> str:
    installation.add_small_volume(furnished)
    return furnished


def with_another_clock(_: Installation, furnished: str) -> str:
    build_clock()
    return furnished


def kill(namespace: str | None, component: str, command: str, pod: str = "") -> Callable[[Installation, str], None]:
    """kill -9 in the pods of a component, or in one; None: of the run's own namespace."""
    return lambda installation, own: installation.kill(namespace or own, component, command, pod)


def while_it_trains(strike: Callable[[Installation, str], None]) -> Callable[[Installation, str], None]:
    """The trainer waits for the strike."""

    def struck(installation: Installation, namespace: str) -> None:
        with trainer_paused(installation, namespace):
            strike(installation, namespace)

    return struck


def trainer_paused(installation: Installation, namespace: str) -> AbstractContextManager[None]:
    """It may be done within seconds."""
    return installation.host.paused(installation.uids(namespace, "trainer"), TRAINER)


def hang_trainer(installation: Installation, namespace: str) -> None:
    installation.host.hang(installation.uids(namespace, "trainer"), TRAINER)


def exhaust_trainer(installation: Installation, namespace: str) -> None:
    installation.host.exhaust_memory(installation.uids(namespace, "trainer"), TRAINER)


def exhaust_memory(component: str, command: str) -> Callable[[Installation, str], None]:
    """Of one of the component's containers, as its kubelet then says."""

    def exhaust(installation: Installation, namespace: str) -> None:
        with trainer_paused(installation, namespace):
            installation.host.exhaust_memory(installation.uids(namespace, component), command)
        installation.wait_for_last_end(namespace, component, "OOMKilled")

    return exhaust


def once_there_is_one(strike: Callable[[Installation, str], None]) -> Callable[[Installation, str], None]:
    """As soon as there is a process to strike: between two steps no sandbox is in use."""

    def wait(installation: Installation, namespace: str) -> None:
        give_up_at = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                return strike(installation, namespace)
            except NoVictimError:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.2)

    return wait


def exhaust_held_sandbox(installation: Installation, namespace: str) -> None:
    """Of one in which an attempt is at work."""
    installation.host.exhaust_memory(installation.held_uids(namespace), KEEP_ALIVE)


def kill_daemons(*programs: str) -> Callable[[Installation, str], None]:
    return lambda installation, _: installation.host.kill_daemons(*programs)


def evict_trainer(installation: Installation, namespace: str) -> None:
    installation.evict(namespace, installation.pods(namespace, "trainer")[-1]["metadata"]["name"])


def drain_node(installation: Installation, _: str) -> None:
    """All pods of the only node are evicted, the operator too, and come back when it may be used again."""
    drain = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=280s")
    installation.kubectl("drain", "node1", *drain)
    installation.kubectl("uncordon", "node1")


def forbid_pods(installation: Installation, namespace: str) -> None:
    """A quota that is full for a while."""
    installation.kubectl("-n", namespace, "create", "quota", "full", "--hard=pods=1")
    installation.kill(namespace, "trainer", TRAINER)
    installation.wait_for_reason(namespace, "TrainerReady", {"FailedCreate"}, deadline_seconds=120)
    installation.kubectl("-n", namespace, "delete", "quota", "full")


def deny_trainers(installation: Installation, namespace: str) -> None:
    """An admission policy that refuses the next attempt's pods for a while."""
    with installation.denying(namespace, pod_denial(namespace, "trainer")):
        installation.kill(namespace, "trainer", TRAINER)
        installation.wait_for_reason(namespace, "TrainerReady", {"FailedCreate"}, deadline_seconds=120)


def deny_reports(installation: Installation, namespace: str) -> None:
    """An admission policy that refuses what the trainer reports, for good."""
    with installation.denying(namespace, report_denial(namespace)):
        installation.wait_for_end(namespace, deadline_seconds=DEADLINE_SECONDS)


def miss_secret(installation: Installation, namespace: str) -> None:
    """What the trainer's environment names comes late."""
    installation.wait_for_reason(namespace, "TrainerReady", {"ContainerConfig"}, deadline_seconds=DEADLINE_SECONDS)
    installation.kubectl("-n", namespace, "create", "secret", "generic", "late", "--from-literal=token=x")


def miss_image(installation: Installation, namespace: str) -> None:
    """What the tasks' sandboxes are made of comes late."""
    installation.wait_for_reason(namespace, "ImagesReady", {"ImagePull"}, deadline_seconds=DEADLINE_SECONDS)
    installation.bring_late_images()


def throttle(installation: Installation, _: str) -> None:
    """429 to whatever a service account asks, for a minute: operator, trainer and controllers."""
    with installation.refusing_service_accounts():
        time.sleep(60)


def silence_etcd(installation: Installation, _: str) -> None:
    """500 to whatever anybody asks, for a minute."""
    with installation.host.standing_still("etcd"):
        time.sleep(60)
    installation.host.heal()


def silence_node(installation: Installation, _: str) -> None:
    """NotReady, and back before anything is evicted."""
    with installation.host.standing_still("kubelet"):
        installation.wait_for_node("Unknown")
    installation.wait_for_node("True")


def see_wrong_clock(own: str | None, component: str, command: str) -> Callable[[Installation, str], None]:
    """Of all processes of a component; None: in the run's own namespace."""

    def see(installation: Installation, namespace: str) -> None:
        assert installation.host.has_loaded(installation.uids(own or namespace, component), command, str(LIBRARY))

    return see


def misset_operator(installation: Installation, namespace: str) -> None:
    """Its clock is wrong from now on."""
    own, operator = OPERATOR[0], "deployment/sweyard-operator"
    patch = json.dumps({"spec": {"template": {"spec": wrong_clock("operator")}}})
    installation.kubectl("-n", own, "patch", operator, "-p", patch)
    try:
        installation.kubectl("-n", own, "rollout", "status", operator)
        see_wrong_clock(*OPERATOR)(installation, namespace)
        installation.wait_for_end(namespace, deadline_seconds=DEADLINE_SECONDS)
    finally:
        installation.kubectl("-n", own, "rollout", "undo", operator)
        installation.kubectl("-n", own, "rollout", "status", operator)


def deafen_operator(installation: Installation, namespace: str) -> None:
    """Its watches say nothing any more, for ever, and stay open: it begins them anew."""
    own, component, command = OPERATOR
    with installation.host.dead_watches(installation.uids(own, component), command):
        installation.wait_for_end(namespace, deadline_seconds=DEADLINE_SECONDS)
        installation.wait_for_words(own, component, "was silent for", deadline_seconds=240)


FAULTS = {
    "operator": Fault(kill(*OPERATOR)),
    "trainer": Fault(kill(None, "trainer", TRAINER), max_restarts=1),
    "trainer hangs": Fault(
        hang_trainer,
        max_restarts=1,
        failure="Stalled",
        failure_words="trainer ended with exit code 137: ",
        spec={
            "restart": {"backoffSeconds": 1, "stallDeadlineSeconds": 120},
            # What hangs heeds no signal.
            "trainer": {"podOverrides": {"terminationGracePeriodSeconds": 10}},
        },
    ),
    "rank 1": Fault(
        kill(None, "trainer", "python", pod="r-trainer-0-1"), max_restarts=1, spec={"trainer": {"replicas": 2}}
    ),
    "sandboxes": Fault(once_there_is_one(kill(None, "sandbox", KEEP_ALIVE))),
    "kubelet": Fault(kill_daemons("kubelet")),
    "containerd": Fault(kill_daemons("containerd")),
    "API server": Fault(kill_daemons("kube-apiserver")),
    "etcd": Fault(kill_daemons("etcd")),
    "node drained": Fault(drain_node, failure="Disrupted"),
    "eviction": Fault(while_it_trains(evict_trainer), failure="Disrupted"),
    "quota": Fault(forbid_pods, max_restarts=1),
    "Secret missing": Fault(
        miss_secret,
        spec={"trainer": {"env": [{"name": "LATE", "secret": "late", "key": "token"}]}},
        strikes_at_once=True,
    ),
    "image missing": Fault(miss_image, strikes_at_once=True, prepare=without_images),
    "volume full": Fault(
        while_it_trains(Installation.fill_volume),
        spec={"storage": {"claimName": "small"}},
        prepare=with_small_volume,
        ends_with="no space left for",
    ),
    "trainer out of memory": Fault(exhaust_trainer, max_restarts=1, failure="OOMKilled"),
    "sandbox out of memory": Fault(once_there_is_one(while_it_trains(exhaust_held_sandbox)), strikes_at_once=True),
    "admission": Fault(deny_trainers, max_restarts=1),
    "reports refused": Fault(
        deny_reports,
        max_restarts=1,
        spec={"steps": 1_000, "restart": {"backoffSeconds": 1, "stallDeadlineSeconds": 120}},
        ends_with="no reports today; give its account that right",
    ),
    "node NotReady": Fault(silence_node, max_restarts=1),
    "API server throttles": Fault(throttle, max_restarts=1),
    "etcd silent": Fault(silence_etcd, max_restarts=1),
    "watches dead": Fault(deafen_operator),
    "operator's clock ahead": Fault(misset_operator, prepare=with_another_clock),
    "trainer's clock ahead": Fault(
        once_there_is_one(see_wrong_clock(None, "trainer", TRAINER)),
        spec={"trainer": {"podOverrides": wrong_clock("trainer")}},
        strikes_at_once=True,
        prepare=with_another_clock,
    ),
    "scheduler and controllers": Fault(kill_daemons("kube-scheduler", "kube-controller-manager")),
    "engine": Fault(kill(None, "engine", ENGINE), engine="vllm"),
    "gateway": Fault(kill(None, "gateway", GATEWAY), engine="vllm"),
    "gateway out of memory": Fault(exhaust_memory("gateway", GATEWAY), engine="vllm"),
    "engine out of memory": Fault(exhaust_memory("engine", ENGINE), engine="vllm"),
}
"""In the order in which a user meets them."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_run_ends_as_if_undisturbed_by(
    name: str, installation: Installation, furnished: str, record_property: Callable[[str, object], None]
) -> None:
    fault = FAULTS[name]
    namespace = fault.prepare(installation, furnished)
    given = installation.left_in(namespace)
    images = {"images": {"cacheRef": "shared"}} if namespace == furnished else {}
    installation.apply_run(namespace, {**SHORT, **images, "inference": {"engine": fault.engine}, **fault.spec})
    if not fault.strikes_at_once:
        installation.wait_for_step(namespace, 1, deadline_seconds=DEADLINE_SECONDS)
    fault.strike(installation, namespace)
    status = installation.wait_for_end(namespace, deadline_seconds=DEADLINE_SECONDS)
    record_property("restarts", status["restarts"])
    record_property("attempts", status["attempts"])
    record_property("failure", status.get("lastFailure", {}).get("reason", ""))
    if fault.ends_with is not None:
        record_property("outcome", "failed as it must")

    assert status["restarts"] <= fault.max_restarts, status
    if fault.failure is not None:
        assert status["lastFailure"]["reason"] == fault.failure
        assert fault.failure_words in status["lastFailure"]["message"]
    claim = fault.spec.get("storage", {}).get("claimName", "r")
    if fault.ends_with is None:
        assert (status["phase"], status["step"]) == ("Succeeded", STEPS), status
        assert steps_in(installation, namespace, claim) == {step: 1 for step in range(1, STEPS + 1)}
    else:
        assert status["phase"] == "Failed", status
        assert any(fault.ends_with in one["message"] for one in status["conditions"] if one["type"] == "Failed"), status
        assert installation.read_volume(namespace, claim, "checkpoints/step-*/COMPLETE")
    installation.kubectl("-n", namespace, "delete", "trainingrun", "r")
    until_gone(installation, namespace, None, given)


def steps_in(installation: Installation, namespace: str, claim: str) -> dict[int, int]:
    """How often the figures of each optimizer step were kept."""
    (metrics,) = installation.read_volume(namespace, claim, "metrics/metrics.jsonl").values()
    rows = [json.loads(line) for line in metrics.splitlines()]
    return dict(Counter(int(row["step"]) for row in rows if "rollout/attempts" in row))
