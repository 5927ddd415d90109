"""Who reaches whom: the arrows of the picture and no other."""

from typing import Any

import pytest
from tests.operator.run.manifests import SETTINGS, make_run

from sweyard_operator.build.network_policies import build_network_policies
from sweyard_operator.build.run_context import (
    ApiServerEndpoint,
    RunContext,
)
from sweyard_operator.observe.api_server import parse_api_server
from sweyard_operator.resources import name_of


def arrows(run: RunContext) -> dict[str, set[str]]:
    """Policy by name to its egress, in short: component or cidr, and port."""
    found: dict[str, set[str]] = {}
    for policy in build_network_policies(run, SETTINGS):
        short = set()
        for rule in policy["spec"]["egress"]:
            peers = [
                peer["podSelector"]["matchLabels"]["sweyard.dev/component"]
                if "podSelector" in peer
                else peer["ipBlock"]["cidr"]
                for peer in rule.get("to", [{"ipBlock": {"cidr": "anywhere"}}])
            ]
            ports = [str(port["port"]) for port in rule.get("ports", [{"port": "any"}])]
            short |= {f"{peer}:{port}" for peer in peers for port in ports}
        found[name_of(policy)] = short
    return found


DNS = {"anywhere:53"}
INTERNET = {"0.0.0.0/0:443", "::/0:443"}
OWN = {"trainer:any", "gateway:8000", "gateway:8001", "fd00::1/128:6443"} | DNS


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {},
            {"demo-trainer": OWN | {"engine:8000"}, "demo-gateway": DNS | {"engine:8000"}, "demo-engine": set()},
            id="offline",
        ),
        pytest.param(
            {"model": {"name": "Qwen/Qwen3-4B"}},
            {
                "demo-trainer": OWN | INTERNET | {"engine:8000"},
                "demo-gateway": DNS | INTERNET | {"engine:8000"},
                "demo-engine": DNS | INTERNET,
            },
            id="model of the hub",
        ),
        pytest.param(
            {"tasks": {"train": {"dataset": "org/data"}}},
            {
                "demo-trainer": OWN | INTERNET | {"engine:8000"},
                "demo-gateway": DNS | {"engine:8000"},
                "demo-engine": set(),
            },
            id="tasks of the hub",
        ),
        pytest.param(
            {"warmup": {"steps": 1, "demonstrations": "dataset", "dataset": "org/chats"}},
            {
                "demo-trainer": OWN | INTERNET | {"engine:8000"},
                "demo-gateway": DNS | {"engine:8000"},
                "demo-engine": set(),
            },
            id="demonstrations of the hub",
        ),
        pytest.param(
            {"inference": {"placement": "external", "url": "http://engine.example:8080"}},
            {"demo-trainer": OWN | {"anywhere:8080"}, "demo-gateway": DNS | {"anywhere:8080"}},
            id="external engine",
        ),
        pytest.param(
            {"inference": {"engine": "transformers"}},
            {"demo-trainer": {"trainer:any", "fd00::1/128:6443"} | DNS},
            id="embedded engine",
        ),
        pytest.param(
            {"checkpoint": {"url": "s3://bucket/runs"}},
            {
                "demo-trainer": OWN | INTERNET | {"engine:8000"},
                "demo-gateway": DNS | {"engine:8000"},
                "demo-engine": set(),
            },
            id="checkpoints in object storage",
        ),
        pytest.param(
            {"logging": {"traceEndpoint": "http://collector.observability:4318"}},
            {
                "demo-trainer": OWN | {"engine:8000", "anywhere:4318"},
                "demo-gateway": DNS | {"engine:8000"},
                "demo-engine": set(),
            },
            id="traces to a collector",
        ),
        pytest.param(
            {"inference": {"weightSync": "nccl"}, "trainer": {"device": "auto"}},
            {
                "demo-trainer": OWN | {"engine:8000", "engine:any"},
                "demo-gateway": DNS | {"engine:8000"},
                "demo-engine": DNS | {"trainer:any"},
            },
            id="weights over NCCL",
        ),
        pytest.param(
            {
                "inference": {"placement": "colocated", "replicas": 2},
                "trainer": {"processesPerReplica": 2, "device": "auto", "resources": {"limits": {"nvidia.com/gpu": 2}}},
            },
            {"demo-trainer": OWN, "demo-gateway": DNS | {"trainer:8000", "trainer:8001"}},
            id="two engines in a pod of the trainer",
        ),
    ],
)
def test_only_the_arrows_of_the_picture(changes: dict[str, Any], expected: dict[str, set[str]]) -> None:
    assert arrows(make_run(**changes)) == expected


SUPERVISED = {"mode": "sft", "sft": {"datasets": ["/data/chats.jsonl"]}}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="separate"),
        pytest.param({"inference": {"weightSync": "nccl"}, "trainer": {"device": "auto"}}, id="weights over NCCL"),
        pytest.param({"inference": {"placement": "external", "url": "http://engine.example:8080"}}, id="external"),
    ],
)
def test_a_run_without_attempts_reaches_no_engine(changes: dict[str, Any]) -> None:
    assert arrows(make_run(**SUPERVISED, **changes)) == {"demo-trainer": {"trainer:any", "fd00::1/128:6443"} | DNS}


def test_over_nccl_trainer_and_engines_reach_each_other_on_any_port() -> None:
    over_nccl = make_run(inference={"weightSync": "nccl"}, trainer={"device": "auto"})
    policies = {name_of(item): item for item in build_network_policies(over_nccl, SETTINGS)}
    for own, other in (("trainer", "engine"), ("engine", "trainer")):
        open_to = [rule["from"] for rule in policies[f"demo-{own}"]["spec"]["ingress"] if "ports" not in rule]
        peers = [peer["podSelector"]["matchLabels"]["sweyard.dev/component"] for rule in open_to for peer in rule]
        assert other in peers


def test_sandboxes_reach_the_gateways_first_port_alone() -> None:
    gateway = next(item for item in build_network_policies(make_run(), SETTINGS) if name_of(item) == "demo-gateway")
    (rule,) = [
        rule
        for rule in gateway["spec"]["ingress"]
        if rule["from"][0]["podSelector"]["matchLabels"].get("sweyard.dev/component") == "sandbox"
    ]
    assert rule["from"][0]["podSelector"]["matchLabels"]["sweyard.dev/pool"] == "demo"
    assert [port["port"] for port in rule["ports"]] == [8000]


def test_api_server_is_found_before_and_behind_its_service() -> None:
    service = {"spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 443}]}}
    slices = [{"endpoints": [{"addresses": ["10.0.0.3"]}, {"addresses": ["10.0.0.2"]}], "ports": [{"port": 6443}]}]
    assert parse_api_server(service, slices) == (
        ApiServerEndpoint("10.0.0.2", 6443),
        ApiServerEndpoint("10.0.0.3", 6443),
        ApiServerEndpoint("10.96.0.1", 443),
    )
