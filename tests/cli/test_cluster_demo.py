"""The demo on a cluster: which choices can work, what is installed, what comes back."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from sweyard_api.resolve import resolve
from sweyard_cli.demo.cluster import run_cluster_demo
from sweyard_cli.demo.cluster_commands import Commands, host_commands, shorten
from sweyard_cli.demo.cluster_install import chart_values, image_value
from sweyard_cli.demo.cluster_run import SHORTER, shortened
from sweyard_cli.demo.cluster_targets import host_paths, kind_config, make_target
from sweyard_cli.demo.look import look_commands
from sweyard_cli.errors import UserError

CHECKOUT = Path(__file__).parents[2]
DIGEST = "sha256:" + "0" * 64


def install(directory: Path, name: str, script: str) -> None:
    program = directory / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("choice", "programs", "sentence"),
    [
        pytest.param("nomad", {}, r"CLUSTER=nomad is not one of none, native, kind, existing", id="unknown"),
        pytest.param("kind", {}, r"docker is not installed.*CLUSTER=native as root", id="no docker"),
        pytest.param("kind", {"docker": "exit 1"}, r"no Docker engine answers", id="no engine"),
        pytest.param("kind", {"docker": "exit 0"}, r"kind is not installed", id="no kind"),
        pytest.param("kind", {"docker": "", "kind": "", "kubectl": ""}, r"helm is not installed", id="no helm"),
    ],
)
def test_a_choice_that_cannot_work_says_why_and_what_would(
    choice: str, programs: dict[str, str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in programs.items():
        install(tmp_path, name, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=sentence):
        make_target(choice, CHECKOUT, tmp_path, registry="").check()


NO_ONE = 'printf "Please enter Username: "; echo "error: EOF" >&2; exit 1'
"""kubectl with an empty standard input, and a user without credentials."""
REFUSED = "echo noise >&2; echo 'The connection to the server 10.0.0.1:6443 was refused' >&2; exit 1"


@pytest.mark.parametrize(
    ("programs", "registry", "lacking"),
    [
        pytest.param({}, "", ["kubectl is not installed", "helm is not installed", "REGISTRY is missing"], id="all"),
        pytest.param({"kubectl": ""}, "r", [r"helm is not installed: install it \(https://helm\.sh/"], id="helm"),
        pytest.param({"kubectl": "", "helm": ""}, "", ["REGISTRY is missing, .* REGISTRY=registry"], id="registry"),
        pytest.param(
            {"kubectl": REFUSED}, "", ["helm", "REGISTRY", r"reaches no cluster by .*: The .* refused$"], id="no answer"
        ),
        pytest.param({"kubectl": NO_ONE, "helm": ""}, "r", [r"has no credentials: .*use-context"], id="no credentials"),
        pytest.param({"kubectl": "echo no; exit 1", "helm": ""}, "r", [r"may not create Custom"], id="not allowed"),
        pytest.param({"kubectl": "exit 1", "helm": ""}, "r", [r"reaches no cluster by .*: it said nothing"], id="mute"),
    ],
)
def test_all_that_an_existing_cluster_lacks_is_told_at_once(
    programs: dict[str, str], registry: str, lacking: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in programs.items():
        install(tmp_path, name, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError) as raised:
        make_target("existing", CHECKOUT, tmp_path, registry).check()
    first, *told = str(raised.value).split("\n- ")
    assert first == "CLUSTER=existing cannot work here yet:"
    assert len(told) == len(lacking)
    for sentence, pattern in zip(told, lacking, strict=True):
        assert re.search(pattern, sentence)


def test_an_existing_cluster_that_lacks_nothing_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kubectl", "helm"):
        install(tmp_path, name, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    make_target("existing", CHECKOUT, tmp_path, "registry.example.com/you").check()


def test_a_program_that_would_ask_gets_no_answer_from_the_terminal(tmp_path: Path) -> None:
    install(tmp_path, "asking", 'read -r name || { echo "no terminal" >&2; exit 1; }')
    with pytest.raises(UserError, match="no terminal"):
        Commands(Console(quiet=True), {"PATH": str(tmp_path)}).run(str(tmp_path / "asking"))


KIND_SAYS = """
Creating cluster "sweyard-demo" ...
 * Ensuring node image (kindest/node:v1.37.0) ...
ERROR: failed to create cluster: failed to pull image "kindest/node:v1.37.0@sha256:a1ed": command "docker pull" failed
Command Output: Error response from daemon: dial tcp: lookup registry.example on 10.0.0.1:53: network is unreachable
"""


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            KIND_SAYS,
            r"^CLUSTER=kind: .* cannot pull .*, kindest/node:v1\.37\.0: .*CLUSTER=native .*CLUSTER=none.*$",
        ),
        ("ERROR: no space left", r"kind create cluster .* failed: ERROR: no space left"),
    ],
    ids=["node image", "anything else"],
)
def test_kind_that_makes_no_cluster_is_told_in_a_sentence(said: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(said)
    install(tmp_path, "kind", f'[ "$1" = get ] || {{ /bin/cat {tmp_path}/said >&2; exit 1; }}')
    commands = Commands(Console(quiet=True), {"PATH": str(tmp_path)})
    with pytest.raises(UserError, match=sentence):
        make_target("kind", CHECKOUT, tmp_path, registry="").start(commands)


def test_a_cluster_that_does_not_start_begins_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what an earlier demo left stays where it is."""
    for name, script in {"docker": "", "kubectl": "", "helm": "", "kind": '[ "$1" = get ] || exit 1'}.items():
        install(tmp_path, name, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    begun: list[str] = []
    with pytest.raises(UserError, match="kind create cluster"):
        run_cluster_demo(
            "kind",
            CHECKOUT / "examples/tiny/trainingrun.yaml",
            tmp_path / "dataset",
            tmp_path / "runs/tiny",
            CHECKOUT,
            "",
            Console(quiet=True),
            lambda: begun.append("run"),
        )
    assert not begun
    assert not (tmp_path / "runs" / "tiny").exists()


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (0, "get tr,rp,ic"),
        (1, "describe tr tiny"),
        (2, "logs -l sweyard.dev/run=tiny,sweyard.dev/component=trainer --all-containers --tail=-1"),
    ],
    ids=["objects", "conditions", "logs"],
)
def test_the_ways_to_look_at_the_run_work_in_any_shell(number: int, arguments: str, tmp_path: Path) -> None:
    """A kubectl that answers only where it finds the cluster, called with an environment that knows neither."""
    install(tmp_path, "kubectl", 'echo "$KUBECONFIG" "$@"')
    told, _ = look_commands({"PATH": str(tmp_path), "KUBECONFIG": str(tmp_path / "of the demo")}, "tiny")[number]
    done = subprocess.run(["sh", "-c", told], env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True)
    assert done.stdout == f"{tmp_path}/of the demo -n sweyard-demo {arguments}\n"


def test_an_existing_cluster_is_looked_at_as_the_shell_finds_it(tmp_path: Path) -> None:
    install(tmp_path, "kubectl", "")
    assert look_commands({"PATH": str(tmp_path)}, "tiny")[0][0] == f"{tmp_path}/kubectl -n sweyard-demo get tr,rp,ic"


def test_what_kubectl_and_helm_learn_is_kept_in_our_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEYARD_CACHE", str(tmp_path))
    environment = host_commands(Console(quiet=True)).environment
    assert all(environment[name].startswith(str(tmp_path)) for name in ("KUBECACHEDIR", "HELM_CACHE_HOME"))


def test_native_says_what_is_missing_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SWEYARD_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"CLUSTER=native cannot work here yet, as said above"):
        make_target("native", CHECKOUT, tmp_path, registry="").check()
    told = capfd.readouterr().err
    assert "apt-get install -y buildah" in told or "needs root" in told


def test_native_without_root_names_the_other_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match=r"needs root.*user 1000.*CLUSTER=kind.*CLUSTER=none"):
        make_target("native", CHECKOUT, tmp_path, registry="").check()


def test_the_shortened_run_is_the_example_with_fewer_attempts() -> None:
    example = yaml.safe_load((CHECKOUT / "examples/tiny/trainingrun.yaml").read_text())
    short = shortened(example)
    config = resolve(short["spec"])
    assert (config.steps, config.rollout.groups_per_step) == (SHORTER["steps"], 4)
    assert {source.limit for source in config.tasks.eval} == {20}
    assert short["metadata"] == example["metadata"]
    assert config.model == resolve(example["spec"]).model


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("10.0.0.1:5000/team/op:dev", ("10.0.0.1:5000/team", "op", "dev", "")),
        (f"registry/team/op:dev@{DIGEST}", ("registry/team", "op", "dev", DIGEST)),
    ],
)
def test_an_image_is_taken_apart_as_the_chart_wants_it(image: str, parts: tuple[str, ...]) -> None:
    assert tuple(image_value(image).values()) == parts


def test_without_a_mounted_checkout_the_chart_runs_the_built_image() -> None:
    images = {"operator": "r/o:1", "cacheAgent": "r/a:1", "trainer": "r/t:1"}
    assert "development" not in chart_values(images, None)
    development = chart_values(images, CHECKOUT)["development"]
    assert development["image"] == "r/t:1"
    assert development["python"].startswith(sys.prefix)
    assert str(CHECKOUT) in development["hostPaths"]


def test_a_system_python_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    with pytest.raises(UserError, match="UV_PYTHON_PREFERENCE=only-managed"):
        host_paths(CHECKOUT)


def test_kind_nodes_see_the_checkout_read_only() -> None:
    (node,) = yaml.safe_load(kind_config(["/a", "/b"]))["nodes"]
    assert [mount["hostPath"] for mount in node["extraMounts"]] == ["/a", "/b"]
    assert all(mount["readOnly"] for mount in node["extraMounts"])


def test_commands_are_shown_as_one_would_type_them() -> None:
    assert shorten(["/opt/bin/kubectl", "get", "pods"]) == ["kubectl", "get", "pods"]
    assert len(shorten(["load", *(str(number) for number in range(50))])) == 12
