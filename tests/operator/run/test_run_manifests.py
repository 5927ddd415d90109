"""What the goldens do not show: options, overrides, secrets, arrows of the network, development mode."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sweyard_api.resolve import resolve
from sweyard_operator.build.engine import build_engines
from sweyard_operator.build.gateway import build_gateway
from sweyard_operator.build.network_policies import build_network_policies
from sweyard_operator.build.overrides import merge_pod_spec
from sweyard_operator.build.run_context import (
    ApiServerEndpoint,
    Development,
    RunContext,
    RunSettings,
    parse_development,
)
from sweyard_operator.build.trainer_job import build_trainer_job
from sweyard_operator.observe.api_server import parse_api_server
from sweyard_operator.resources import Manifest, name_of
from sweyard_operator.run_metrics import RunMetrics

SETTINGS = RunSettings("registry.example/sweyard-trainer:1", api_server=(ApiServerEndpoint("fd00::1", 6443),))
DEVELOPMENT = RunSettings(
    "unused:1", development=Development(image="base:1", python="/opt/venv/bin/python", host_paths=["/opt/venv"])
)


def make_run(**changes: Any) -> RunContext:
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, **changes}
    return RunContext("demo", "lab", "run-uid", resolve(spec))


def job_of(run: RunContext, settings: RunSettings = SETTINGS, gateway_ip: str | None = "10.96.0.7") -> Manifest:
    return build_trainer_job(run, settings, attempt=3, restarts=1, gateway_ip=gateway_ip)


def pod_of(manifest: Manifest) -> dict[str, Any]:
    spec: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return spec


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def pods_of(run: RunContext, settings: RunSettings) -> list[dict[str, Any]]:
    return [
        pod_of(item) for item in (job_of(run, settings), build_gateway(run, settings), build_engines(run, settings))
    ]


def test_only_the_trainer_carries_a_token() -> None:
    trainer, gateway, engine = pods_of(make_run(), SETTINGS)
    assert trainer["automountServiceAccountToken"]
    assert trainer["serviceAccountName"] == "demo-trainer"
    for pod in (gateway, engine):
        assert not pod["automountServiceAccountToken"]
        assert "serviceAccountName" not in pod


@pytest.mark.parametrize("settings", [SETTINGS, DEVELOPMENT], ids=["production", "development"])
def test_pods_write_to_nothing_but_volume_temporary_and_shared_memory(settings: RunSettings) -> None:
    for pod in pods_of(make_run(), settings):
        for container in (*pod["containers"], *pod["initContainers"]):
            assert container["securityContext"]["readOnlyRootFilesystem"]
            writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
            assert writable <= {"/var/lib/sweyard", "/tmp", "/dev/shm"}


def test_engine_reads_the_volume_and_its_preparation_writes_it() -> None:
    pod = pod_of(build_engines(make_run(), SETTINGS))
    for container, read_only in ((pod["containers"][0], True), (pod["initContainers"][0], None)):
        mount = next(item for item in container["volumeMounts"] if item["name"] == "storage")
        assert mount.get("readOnly") is read_only


def test_development_runs_the_nodes_interpreter_from_read_only_directories() -> None:
    for pod in pods_of(make_run(trainer={"image": "ignored:1"}), DEVELOPMENT):
        assert {"path": "/opt/venv", "type": "Directory"} in [volume.get("hostPath") for volume in pod["volumes"]]
        for container in (*pod["containers"], *pod["initContainers"]):
            assert container["image"] == "base:1"
            assert container["command"][0] == "/opt/venv/bin/python"
            mount = next(item for item in container["volumeMounts"] if item["mountPath"] == "/opt/venv")
            assert mount["readOnly"]
        assert "runAsNonRoot" not in pod["securityContext"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param('{"image": "a:1", "python": "/p"}', "hostPaths: Field required", id="missing"),
        pytest.param('{"image": "a:1", "python": "/p", "hostPaths": ["opt"]}', "hostPaths.0", id="relative"),
        pytest.param("{", "Invalid JSON", id="no JSON"),
    ],
)
def test_wrong_development_setting_is_refused_by_name(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"SWEYARD_DEVELOPMENT: .*{sentence}"):
        parse_development(text)


def test_no_development_is_the_rule() -> None:
    assert parse_development("") is None


def test_trainer_environment_tells_who_and_where() -> None:
    env = env_of(pod_of(job_of(make_run(inference={"replicas": 2}), gateway_ip="fd00::7"))["containers"][0])
    assert env["SWEYARD_ATTEMPT"] == "3"
    assert env["SWEYARD_HEAD_ADDRESS"] == "demo-trainer-3-0.demo-trainer"
    assert env["SWEYARD_ENGINE_URLS"] == "http://demo-engine-0.demo-engine:8000,http://demo-engine-1.demo-engine:8000"
    assert env["SWEYARD_GATEWAY_URL"] == "http://[fd00::7]:8000"
    assert env["SWEYARD_RUN_UID"] == "run-uid"


def test_embedded_engine_has_no_gateway_to_name() -> None:
    env = env_of(pod_of(job_of(make_run(inference={"engine": "transformers"}), gateway_ip=None))["containers"][0])
    assert "SWEYARD_GATEWAY_URL" not in env
    assert env["SWEYARD_ENGINE_URLS"] == ""


def test_secrets_become_variables_where_they_are_used() -> None:
    run = make_run(
        model={"name": "Qwen/Qwen3-4B", "tokenSecret": "hub"},
        logging={"wandb": {"project": "p", "secret": "wandb"}},
        inference={"placement": "external", "url": "https://engine.example", "apiKeySecret": "key"},
        trainer={
            "env": [
                {"name": "A", "secret": "s"},
                {"name": "B", "secret": "s", "key": "k"},
                {"name": "HOME", "value": "/x"},
            ]
        },
    )
    trainer = env_of(pod_of(job_of(run))["containers"][0])
    secrets = {
        name: value["secretKeyRef"]
        for name, value in trainer.items()
        if isinstance(value, dict) and "secretKeyRef" in value
    }
    assert secrets == {
        "HF_TOKEN": {"name": "hub", "key": "token"},
        "WANDB_API_KEY": {"name": "wandb", "key": "token"},
        "SWEYARD_ENGINE_API_KEY": {"name": "key", "key": "token"},
        "A": {"name": "s", "key": "A"},
        "B": {"name": "s", "key": "k"},
    }
    assert trainer["HOME"] == "/x"
    gateway = env_of(pod_of(build_gateway(run, SETTINGS))["containers"][0])
    assert gateway["SWEYARD_ENGINE_API_KEY"] == {"secretKeyRef": {"name": "key", "key": "token"}}
    assert "WANDB_API_KEY" not in gateway


def test_options_and_overrides_reach_the_pod() -> None:
    pod = pod_of(
        job_of(
            make_run(
                trainer={
                    "device": "cpu",
                    "dtype": "float32",
                    "nodeSelector": {"pool": "gpu"},
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "priorityClassName": "high",
                    "sharedMemory": "8Gi",
                    "resources": {"limits": {"memory": "4Gi", "example.com/nic": "1"}},
                    "podOverrides": {
                        "hostNetwork": True,
                        "containers": [{"name": "trainer", "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}],
                    },
                }
            )
        )
    )
    assert pod["nodeSelector"] == {"pool": "gpu"}
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert pod["priorityClassName"] == "high"
    assert pod["hostNetwork"]
    (trainer,) = pod["containers"]
    assert trainer["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert trainer["resources"]["limits"] == {"memory": "4Gi", "example.com/nic": "1"}
    assert pod["initContainers"][0]["resources"]["limits"] == {"memory": "4Gi"}


GANG = {"replicas": 4, "device": "auto", "resources": {"limits": {"nvidia.com/gpu": "8", "memory": "64Gi"}}}
COLOCATED = {"placement": "colocated", "replicas": 4}


@pytest.mark.parametrize(
    ("changes", "pods", "limits"),
    [
        pytest.param({"mode": "rl"}, 4, {"nvidia.com/gpu": "8", "memory": "64Gi"}, id="training"),
        pytest.param({"mode": "eval"}, 1, {"memory": "64Gi"}, id="evaluation"),
        pytest.param({"mode": "eval", "rollout": {"workers": 3}}, 3, {"memory": "64Gi"}, id="three workers"),
        pytest.param(
            {"mode": "eval", "inference": COLOCATED}, 4, {"nvidia.com/gpu": "8", "memory": "64Gi"}, id="colocated"
        ),
    ],
)
def test_only_who_computes_takes_the_trainers_accelerators(
    changes: dict[str, Any], pods: int, limits: dict[str, str]
) -> None:
    tasks = {"train": {"dataset": "tiny"}, "eval": [{"dataset": "tiny"}]}
    job = job_of(make_run(**changes, tasks=tasks, trainer=GANG))
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (pods, pods)
    assert pod_of(job)["containers"][0]["resources"]["limits"] == limits


def test_datasets_are_mounted_by_their_names() -> None:
    tasks = {
        "train": {"dataset": "mine"},
        "eval": [{"dataset": "mine"}, {"dataset": "org/hub"}, {"dataset": "/data/x"}],
    }
    pod = pod_of(job_of(make_run(tasks=tasks)))
    assert [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume] == [
        "demo-config",
        "mine",
    ]
    mounts = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
    assert "/datasets/mine" in mounts


@pytest.mark.parametrize(
    ("spec", "overrides", "merged"),
    [
        pytest.param({"a": 1}, {"a": None}, {}, id="null removes"),
        pytest.param({"tolerations": [1]}, {"tolerations": [2]}, {"tolerations": [2]}, id="plain lists replace"),
        pytest.param(
            {"volumes": [{"name": "a", "emptyDir": {}}]},
            {"volumes": [{"name": "b", "emptyDir": {}}]},
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]},
            id="named lists merge",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/a"}]},
            id="mounts merge by path",
        ),
    ],
)
def test_overrides_merge_as_documented(spec: Any, overrides: Any, merged: Any) -> None:
    assert merge_pod_spec(spec, overrides) == merged


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
            {"inference": {"weightSync": "nccl"}, "trainer": {"device": "auto"}},
            {
                "demo-trainer": OWN | {"engine:8000", "engine:any"},
                "demo-gateway": DNS | {"engine:8000"},
                "demo-engine": DNS | {"trainer:any"},
            },
            id="weights over NCCL",
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


def test_metrics_follow_a_run_and_forget_it() -> None:
    registry = CollectorRegistry()
    metrics = RunMetrics(registry)
    metrics.show("lab", "demo", {"phase": "Starting", "step": 0}, 0)
    running = {"phase": "Running", "step": 3, "restarts": 1, "metrics": {"rewardMean": 0.5}}
    metrics.show("lab", "demo", running, 1)
    shown = generate_latest(registry).decode()
    assert 'sweyard_run_phase{namespace="lab",phase="Running",run="demo"} 1.0' in shown
    assert "Starting" not in shown
    assert 'sweyard_run_step{namespace="lab",run="demo"} 3.0' in shown
    assert 'sweyard_run_metric{name="rewardMean",namespace="lab",run="demo"} 0.5' in shown
    assert "sweyard_run_stage_seconds_count" not in shown, "nobody has seen the first phase begin"
    usage = {"gpus": 4, "gpuHours": 2.5, "countedAt": ""}
    conditions = [{"type": "Progressing", "status": "False", "reason": "Unschedulable", "message": ""}]
    metrics.show("lab", "demo", {"phase": "Restarting", "usage": usage, "conditions": conditions}, 31)
    shown = generate_latest(registry).decode()
    assert 'sweyard_run_stage_seconds_sum{namespace="lab",stage="Running"} 30.0' in shown
    assert 'sweyard_run_gpu_hours{namespace="lab",run="demo"} 2.5' in shown
    labels = 'namespace="lab",reason="Unschedulable",run="demo",type="Progressing"'
    assert f"sweyard_run_condition{{{labels}}} 0.0" in shown
    metrics.forget("lab", "demo")
    assert 'run="demo"' not in generate_latest(registry).decode()
