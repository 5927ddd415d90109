"""What trainers and holders may do to a real API server, with real tokens: each allowed and each refused case."""

import base64
import itertools
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.conftest import RELEASE

from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver

NAMESPACE = "admission"
HOLDER, CLAIMED_AT, POOL = "sweyard.dev/holder", "sweyard.dev/claimed-at", "sweyard.dev/pool"
POD = "tiny-trainer-0-0-abcde"
"""The pod that the trainer's token is bound to, hence its identity."""
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
RUNS = f"/apis/sweyard.dev/v1alpha1/namespaces/{NAMESPACE}/trainingruns"


class RefusedError(Exception):
    """The API server said no; the message is what it said."""


@dataclass(frozen=True)
class Account:
    """Someone with a bearer token."""

    server: str
    trust: ssl.SSLContext
    token: str

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> str:
        """One request. Raises RefusedError."""
        request = urllib.request.Request(self.server + path, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", content_type)
        try:
            with urllib.request.urlopen(request, json.dumps(body).encode(), timeout=30, context=self.trust) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise RefusedError(json.loads(refusal.read())["message"]) from None

    def patch(self, path: str, operations: list[dict[str, Any]]) -> str:
        return self.call("PATCH", path, operations, "application/json-patch+json")


Create = Callable[[dict[str, Any]], None]


def pod(name: str, labels: dict[str, str], holder: str | None = None, account: str = "default") -> dict[str, Any]:
    annotations = {} if holder is None else {HOLDER: holder}
    containers = [{"name": "sandbox", "image": "none:1"}]
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"kind": "Pod", "metadata": metadata, "spec": {"serviceAccountName": account, "containers": containers}}


@pytest.fixture(scope="session")
def governed(api_server: TestCluster, helm: Callable[..., str]) -> Iterator[TestCluster]:
    """The API server with the chart's kinds, roles and policies, and a namespace to work in."""
    manifests = helm("template", *RELEASE)
    parts = ("CustomResourceDefinition", "ClusterRole", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    wanted = [one for one in yaml.safe_load_all(manifests) if one and one["kind"] in parts]
    api_server.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input_text=yaml.safe_dump_all(wanted))
    api_server.kubectl("wait", "--for=condition=Established", "crd/trainingruns.sweyard.dev", "--timeout=30s")
    api_server.kubectl("create", "namespace", NAMESPACE)
    api_server.kubectl("-n", NAMESPACE, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    yield api_server
    api_server.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="session")
def create(governed: TestCluster) -> Create:
    """Make an object as the cluster's administrator."""

    def make(manifest: dict[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1"} | manifest)
        governed.kubectl("-n", NAMESPACE, "create", "-f", "-", input_text=text)

    return make


@pytest.fixture(scope="session")
def account(governed: TestCluster, create: Create) -> Callable[..., Account]:
    """An account of the namespace, bound to ClusterRoles, with a token bound to a pod of its own or to none."""
    (cluster,) = yaml.safe_load(governed.kubeconfig.read_text())["clusters"]
    server, trust = cluster["cluster"]["server"], _trust(cluster["cluster"])

    def make(name: str, *roles: str, bound_to: str | None = None) -> Account:
        kubectl = governed.kubectl
        kubectl("-n", NAMESPACE, "create", "serviceaccount", name)
        for role in roles:
            subject = f"--serviceaccount={NAMESPACE}:{name}"
            kubectl("-n", NAMESPACE, "create", "rolebinding", f"{name}-{role}", f"--clusterrole={role}", subject)
        bound = []
        if bound_to:
            create(pod(bound_to, {"app": "trainer"}, account=name))
            bound = ["--bound-object-kind=Pod", f"--bound-object-name={bound_to}"]
        return Account(server, trust, kubectl("-n", NAMESPACE, "create", "token", name, *bound).strip())

    return make


def _trust(cluster: dict[str, Any]) -> ssl.SSLContext:
    if "certificate-authority" in cluster:
        return ssl.create_default_context(cadata=Path(cluster["certificate-authority"]).read_text())
    return ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())


@pytest.fixture(scope="session")
def trainer(account: Callable[..., Account]) -> Account:
    """As the operator binds a run's trainer."""
    return account("tiny-trainer", "sweyard-trainer", "sweyard-holder", bound_to=POD)


@pytest.fixture(scope="session")
def outsider(account: Callable[..., Account]) -> Account:
    """A holder outside every pod: its name is its account's."""
    return account("notebook", "sweyard-holder")


@pytest.fixture(scope="session")
def administrator(account: Callable[..., Account]) -> Account:
    return account("owner", "admin", "sweyard-holder")


_slots = itertools.count()


@pytest.fixture
def sandbox(create: Create) -> Callable[[str | None], str]:
    """Path of a new sandbox pod with such a holder."""

    def make(holder: str | None) -> str:
        name = f"pool-{next(_slots)}"
        create(pod(name, {POOL: "pool"}, holder))
        return f"{PODS}/{name}"

    return make


def claim(holder: str) -> list[dict[str, Any]]:
    return [
        {"op": "test", "path": "/metadata/annotations/sweyard.dev~1holder", "value": ""},
        {"op": "replace", "path": "/metadata/annotations/sweyard.dev~1holder", "value": holder},
        {"op": "add", "path": "/metadata/annotations/sweyard.dev~1claimed-at", "value": "2026-01-01T00:00:00Z"},
    ]


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


def lease(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "labels": {POOL: "pool"} if labels is None else labels}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}


def demand(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "labels": {POOL: "pool"} if labels is None else labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"demand.json": "{}"}}


@pytest.mark.parametrize(("collection", "make"), [(LEASES, lease), (CONFIG_MAPS, demand)], ids=["Lease", "demand"])
def test_a_holder_keeps_objects_of_its_own_name(
    collection: str, make: Callable[..., dict[str, Any]], trainer: Account
) -> None:
    for name in (POD, f"{POD}-1"):
        made = json.loads(trainer.call("POST", collection, make(name)))
        trainer.call("PUT", f"{collection}/{name}", made)
        trainer.call("DELETE", f"{collection}/{name}")


@pytest.mark.parametrize(
    ("collection", "manifest", "sentence"),
    [
        (LEASES, lease("another"), "only Leases and demand of its own name"),
        (LEASES, lease(POD, labels={}), "must carry the label sweyard.dev/pool"),
        (CONFIG_MAPS, demand("tiny-config"), "only Leases and demand of its own name"),
        (CONFIG_MAPS, demand(f"{POD}-config"), "only Leases and demand of its own name"),
        (CONFIG_MAPS, demand(POD, labels={}), "must carry the label sweyard.dev/pool"),
    ],
    ids=["another's Lease", "Lease without a pool", "a run's config", "look-alike", "demand without a pool"],
)
def test_a_holder_makes_no_other_objects(
    collection: str, manifest: dict[str, Any], sentence: str, trainer: Account
) -> None:
    with pytest.raises(RefusedError, match=sentence):
        trainer.call("POST", collection, manifest)


def test_a_holder_spoils_nobodys_config_or_lease(trainer: Account, create: Create) -> None:
    create(demand("other-config"))
    create(lease("other-holder"))
    for path, change in ((f"{CONFIG_MAPS}/other-config", "/data"), (f"{LEASES}/other-holder", "/spec")):
        with pytest.raises(RefusedError, match="of its own name"):
            trainer.patch(path, [{"op": "replace", "path": change, "value": {}}])
        with pytest.raises(RefusedError, match="of its own name"):
            trainer.call("DELETE", path)


def test_outside_a_pod_the_holder_is_the_account(outsider: Account, sandbox: Callable[..., str]) -> None:
    path = sandbox("")
    with pytest.raises(RefusedError, match="the holder must be notebook or notebook-<n>"):
        outsider.patch(path, claim(POD))
    outsider.patch(path, claim("notebook-7"))
    outsider.call("DELETE", path)


def test_an_administrator_is_not_held_to_it(administrator: Account, sandbox: Callable[..., str]) -> None:
    path = sandbox("another")
    administrator.patch(path, [{"op": "add", "path": "/metadata/labels/more", "value": "x"}])
    administrator.call("DELETE", path)
    administrator.call("POST", CONFIG_MAPS, demand("anything", labels={}))


def run(name: str) -> dict[str, Any]:
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}}
    return {"apiVersion": "sweyard.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="session")
def runs(create: Create, governed: TestCluster) -> None:
    """Two runs, as the operator keeps their status."""
    for name in ("tiny", "other"):
        create(run(name))
        status = json.dumps({"status": {"phase": "Running", "step": 1, "metrics": {"rewardMean": 0.5}}})
        governed.kubectl("-n", NAMESPACE, "patch", "tr", name, "--subresource=status", "--type=merge", "-p", status)


def report(name: str, status: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "sweyard.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": name}, "status": status}


def apply_status(account: Account, name: str, status: dict[str, Any]) -> dict[str, Any]:
    path = f"{RUNS}/{name}/status?fieldManager=sweyard-trainer&force=true"
    applied: dict[str, Any] = json.loads(
        account.call("PATCH", path, report(name, status), "application/apply-patch+yaml")
    )
    return applied


def test_a_trainer_reports_on_its_own_run(trainer: Account, runs: None) -> None:
    for step in (1, 2):
        status = apply_status(trainer, "tiny", {"trainer": {"phase": "rl", "step": step, "updatedAt": "now"}})["status"]
        assert status["trainer"]["step"] == step
        assert status["phase"] == "Running"


def test_a_trainer_may_be_the_first_to_report(
    trainer: Account, create: Create, account: Callable[..., Account]
) -> None:
    create(run("fresh"))
    first = account("fresh-trainer", "sweyard-trainer")
    assert apply_status(first, "fresh", {"trainer": {"step": 0}})["status"] == {"trainer": {"step": 0}}


def test_a_trainer_does_not_report_on_another_run(trainer: Account, runs: None) -> None:
    with pytest.raises(RefusedError, match=f"only system:serviceaccount:{NAMESPACE}:other-trainer may report"):
        apply_status(trainer, "other", {"trainer": {"step": 1}})


@pytest.mark.parametrize(
    "status",
    [{"phase": "Succeeded"}, {"step": 9}, {"metrics": {"rewardMean": 1.0}}, {"restarts": 1}, {"conditions": []}],
    ids=lambda status: next(iter(status)),
)
def test_a_trainer_writes_nothing_else_of_the_status(status: dict[str, Any], trainer: Account, runs: None) -> None:
    with pytest.raises(RefusedError, match=r"may write status\.trainer and nothing else"):
        apply_status(trainer, "tiny", {"trainer": {"step": 1}, **status})


def test_a_trainer_takes_nothing_out_of_the_status(trainer: Account, runs: None) -> None:
    with pytest.raises(RefusedError, match=r"may write status\.trainer and nothing else"):
        trainer.patch(f"{RUNS}/tiny/status", [{"op": "remove", "path": "/status/phase"}])


def test_a_trainer_does_not_change_runs(trainer: Account, runs: None) -> None:
    with pytest.raises(RefusedError, match=r'cannot patch resource "trainingruns"'):
        trainer.patch(f"{RUNS}/tiny", [{"op": "add", "path": "/spec/suspend", "value": True}])


def test_policies_compile_without_warnings(governed: TestCluster) -> None:
    policies = json.loads(governed.kubectl("get", "validatingadmissionpolicy", "-o", "json"))["items"]
    ours = [policy for policy in policies if policy["metadata"]["name"].startswith("sweyard-")]
    assert len(ours) == 5
    warnings = [policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings") for policy in ours]
    assert [warning for warning in warnings if warning] == []


def node_report(name: str, **labels: str) -> dict[str, Any]:
    labels = {f"sweyard.dev/{key}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "b"}}


@pytest.fixture(scope="session")
def cache_agent(account: Callable[..., Account]) -> Account:
    """As the operator binds a cache's agents."""
    return account("images-cache-agent", "sweyard-cache-agent")


def apply_config_map(account: Account, manifest: dict[str, Any]) -> str:
    path = f"{CONFIG_MAPS}/{manifest['metadata']['name']}?fieldManager=sweyard-cache-agent&force=true"
    return account.call("PATCH", path, manifest, "application/apply-patch+yaml")


def test_a_cache_agent_writes_its_reports(cache_agent: Account) -> None:
    for _ in range(2):
        apply_config_map(cache_agent, node_report("images-node-1", cache="images", **{"cache-role": "report"}))


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"cache": "images"},
        {"cache": "images", "cache-role": "assignment"},
        {"cache": "other", "cache-role": "report"},
    ],
    ids=["no labels", "no role", "an assignment", "another cache's report"],
)
def test_a_cache_agent_writes_nothing_else(labels: dict[str, str], cache_agent: Account) -> None:
    with pytest.raises(RefusedError, match="only the reports of its own cache"):
        apply_config_map(cache_agent, node_report("new", **labels))


def test_a_cache_agent_does_not_turn_another_object_into_a_report(cache_agent: Account, create: Create) -> None:
    create(node_report("some-config"))
    with pytest.raises(RefusedError, match="only the reports of its own cache"):
        apply_config_map(cache_agent, node_report("some-config", cache="images", **{"cache-role": "report"}))
