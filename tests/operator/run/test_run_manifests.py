"""What the goldens do not show: options, overrides, secrets, development mode."""

from itertools import product
from typing import Any

import pytest
from tests.operator.run.manifests import DEVELOPMENT, SETTINGS, env_of, job_of, make_run, pod_of, pods_of

from sweyard_operator.build.engine import build_engines
from sweyard_operator.build.gateway import build_gateway
from sweyard_operator.build.overrides import merge_pod_spec
from sweyard_operator.build.run_context import (
    RunSettings,
    parse_development,
)


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


@pytest.mark.parametrize(
    ("storage", "folder"), [({"claimName": "shared", "subPath": "demo"}, "demo"), ({"claimName": "own"}, None)]
)
def test_each_container_sees_the_runs_own_folder_of_a_claim(storage: dict[str, str], folder: str | None) -> None:
    mounts = [
        (mount["name"], mount.get("subPath"))
        for pod in pods_of(make_run(storage=storage), SETTINGS)
        for container in (*pod["containers"], *pod["initContainers"])
        for mount in container["volumeMounts"]
    ]
    assert {where for name, where in mounts if name == "storage"} == {folder}
    assert {where for name, where in mounts if name != "storage"} == {None}


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


def test_engines_in_the_trainers_pods_are_named_by_these_and_have_a_port_each() -> None:
    gang = {"replicas": 2, "processesPerReplica": 4, "device": "auto", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    run = make_run(inference={"placement": "colocated", "replicas": 4, "tensorParallel": 2}, trainer=gang)
    urls = env_of(pod_of(job_of(run))["containers"][0])["SWEYARD_ENGINE_URLS"].split(",")
    assert urls == [f"http://demo-trainer-3-{pod}.demo-trainer:{port}" for pod, port in product((0, 1), (8000, 8001))]


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
