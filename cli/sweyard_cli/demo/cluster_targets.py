"""Where the demo's cluster comes from: a native one, kind, or one that exists."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console

from sweyard_cli.demo.cluster_commands import Commands, find_program, host_commands
from sweyard_cli.demo.existing_cluster import missing_programs, refusal
from sweyard_cli.errors import UserError

CLUSTER_NAME = "demo"
KIND_NAME = "sweyard-demo"
HELM_OF_OURS = "PATH=$PATH:$(dirname $(.venv/bin/python -m sweyard_cluster build helm))"
INSTALLATION = {
    "docker": "install it (https://docs.docker.com/engine/install)",
    "kind": "install it (https://kind.sigs.k8s.io/docs/user/quick-start/#installation)",
    "kubectl": "install it (https://kubernetes.io/docs/tasks/tools)",
    "helm": f"install it (https://helm.sh/docs/intro/install), or build it with Go: export {HELM_OF_OURS}",
}
OTHER_CHOICES = "CLUSTER=none needs neither cluster nor root"


class Target(Protocol):
    """One kind of cluster."""

    @property
    def mounts_checkout(self) -> bool:
        """Whether its nodes see this machine's directories, so that no trainer image is needed."""
        ...

    def check(self) -> None:
        """Raises UserError saying why this choice cannot work here and what would."""
        ...

    def start(self, commands: Commands) -> Commands:
        """Make the cluster, or find it; commands that reach it."""
        ...

    def bring(self, commands: Commands, images: Sequence[str]) -> list[str]:
        """Make local images available to its pods; the names that pods use, in the same order."""
        ...


@dataclass(frozen=True)
class Native:
    """`python -m sweyard_cluster`: real nodes in namespaces of this machine."""

    cluster: str = CLUSTER_NAME
    mounts_checkout: bool = True

    def check(self) -> None:
        if platform.system() != "Linux":
            raise UserError(f"CLUSTER=native needs Linux, this is {platform.system()}: use CLUSTER=kind with Docker")
        if os.geteuid() != 0:
            raise UserError(
                f"CLUSTER=native needs root for its nodes' namespaces, this is user {os.geteuid()}: run it as root, "
                f"or CLUSTER=kind with Docker; {OTHER_CHOICES}"
            )
        if subprocess.run([sys.executable, "-m", "sweyard_cluster", "prerequisites"], check=False).returncode:
            raise UserError(f"CLUSTER=native cannot work here yet, as said above; {OTHER_CHOICES}")

    def start(self, commands: Commands) -> Commands:
        commands.cluster_tool("up", "--name", self.cluster)
        programs = commands.cluster_tool("build", "control-plane", "helm").split()
        path = os.pathsep.join([*sorted({str(Path(program).parent) for program in programs}), os.environ["PATH"]])
        kubeconfig = commands.cluster_tool("kubeconfig", "--name", self.cluster).strip()
        return commands.with_environment(KUBECONFIG=kubeconfig, PATH=path)

    def bring(self, commands: Commands, images: Sequence[str]) -> list[str]:
        return commands.cluster_tool("load", "--pin", "--name", self.cluster, *images).split()


@dataclass(frozen=True)
class Kind:
    """kind: nodes that are Docker containers."""

    checkout: Path
    state: Path
    """Directory for the kubeconfig."""
    mounts_checkout: bool = True

    def check(self) -> None:
        instead = f"or use CLUSTER=native as root on Linux; {OTHER_CHOICES}"
        find_program("docker", f"{INSTALLATION['docker']}, {instead}")
        if subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
            raise UserError(f"CLUSTER=kind: no Docker engine answers (`docker version` fails): start it, {instead}")
        for program in ("kind", "kubectl", "helm"):
            find_program(program, f"{INSTALLATION[program]}, {instead}")

    def start(self, commands: Commands) -> Commands:
        if KIND_NAME not in commands.run("kind", "get", "clusters", shown=False).split():
            self._create(commands)
        self.state.mkdir(parents=True, exist_ok=True)
        kubeconfig = self.state / "kind.kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(commands.run("kind", "get", "kubeconfig", "--name", KIND_NAME, shown=False))
        return commands.with_environment(KUBECONFIG=str(kubeconfig))

    def _create(self, commands: Commands) -> None:
        config = kind_config(host_paths(self.checkout))
        try:
            commands.run("kind", "create", "cluster", "--name", KIND_NAME, "--config", "-", input_text=config)
        except UserError as error:
            if (image := re.search(r'failed to pull image "([^"@]+)', str(error))) is None:
                raise
            raise UserError(
                f"CLUSTER=kind: the Docker engine cannot pull the image of kind's nodes, {image[1]}: let it reach a "
                f"registry that has it (`registry-mirrors`), or use CLUSTER=native as root on Linux; {OTHER_CHOICES}",
                exit_code=1,
            ) from error

    def bring(self, commands: Commands, images: Sequence[str]) -> list[str]:
        """Under tags made of the images' ids: a node keeps what it has of an unchanged name."""
        names = []
        for image in images:
            digest = commands.run("docker", "image", "inspect", "--format", "{{.Id}}", image, shown=False).strip()
            name = f"{image.rpartition(':')[0]}:{digest.removeprefix('sha256:')[:12]}"
            commands.run("docker", "tag", image, name, shown=False)
            names.append(name)
        commands.run("kind", "load", "docker-image", "--name", KIND_NAME, *names)
        return names


@dataclass(frozen=True)
class Existing:
    """The cluster of the current kubeconfig; images go through a registry that it can pull from."""

    registry: str
    mounts_checkout: bool = False

    def check(self) -> None:
        if lacking := list(self._lacking(host_commands(Console(quiet=True)).environment)):
            raise UserError("\n- ".join(["CLUSTER=existing cannot work here yet:", *lacking]))

    def _lacking(self, environment: Mapping[str, str]) -> Iterator[str]:
        kubectl = f"{INSTALLATION['kubectl']}, and have a kubeconfig of the cluster"
        yield from missing_programs(environment, {"kubectl": kubectl, "helm": INSTALLATION["helm"]})
        if not self.registry:
            yield (
                "REGISTRY is missing, a registry that you can push to and the cluster can pull from: "
                "make demo CLUSTER=existing REGISTRY=registry.example.com/you"
            )
        if shutil.which("kubectl", path=environment.get("PATH")) and (why_not := refusal(environment)):
            yield why_not

    def start(self, commands: Commands) -> Commands:
        commands.run("kubectl", "version")
        return commands

    def bring(self, commands: Commands, images: Sequence[str]) -> list[str]:
        return commands.cluster_tool("images", "push", "--registry", self.registry, *images).split()


def make_target(choice: str, checkout: Path, state: Path, registry: str) -> Target:
    """Raises UserError for a choice that is none."""
    targets: dict[str, Target] = {
        "native": Native(),
        "kind": Kind(checkout, state),
        "existing": Existing(registry),
    }
    if choice not in targets:
        raise UserError(f"CLUSTER={choice} is not one of none, {', '.join(targets)}")
    return targets[choice]


def host_paths(checkout: Path) -> list[str]:
    """Directories that pods need to run this environment: the checkout with its .venv, and the interpreter's own.

    Raises UserError where the interpreter is the system's and not that of the image.
    """
    prefix = Path(sys.base_prefix).resolve()
    if prefix != Path("/usr"):
        return [str(checkout), str(prefix)]
    if sys.version_info[:2] != (3, 11):
        raise UserError(
            f"the environment's Python is this system's {platform.python_version()} in /usr, and the demo's image has "
            "3.11: make the environment with a Python of its own, UV_PYTHON_PREFERENCE=only-managed make clean venv"
        )
    return [str(checkout)]


def kind_config(paths: Sequence[str]) -> str:
    """One node that sees `paths` of this machine."""
    mounts = "".join(f"  - hostPath: {path}\n    containerPath: {path}\n    readOnly: true\n" for path in paths)
    return "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n  extraMounts:\n" + mounts
