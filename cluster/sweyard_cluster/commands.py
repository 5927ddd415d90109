"""What each command does; standard output is for scripts, everything else goes to standard error."""

import argparse
import os
from collections.abc import Callable

from . import faults, lifecycle, loading
from .control_plane import KEEPER
from .daemons import SERVING, daemon_names
from .errors import ClusterError
from .host import NODE_PACKAGES, ensure_packages, require_root
from .image_builders import BUILD_PACKAGES, choose_builder, docker_can_build, unmount_storage
from .images import IMAGES, build_images, image_tag, small_images
from .lifecycle import Tool
from .prerequisites import ensure as ensure_prerequisites
from .recipes import GROUPS, groups_to_build
from .slots import clusters
from .spec import ClusterRequest, ClusterSpec
from .task_images import build_task_images

_TOLD_LINES = 6


def up(tool: Tool, arguments: argparse.Namespace) -> None:
    nodes = 0 if arguments.control_plane_only else 1 if arguments.nodes is None else arguments.nodes
    if nodes < 1 and not arguments.control_plane_only:
        raise ClusterError(f"--nodes {nodes} must be 1 or more; for no nodes at all use --control-plane-only")
    wanted = ClusterRequest(
        nodes=nodes,
        fake_nodes=arguments.fake_nodes,
        audit=arguments.audit,
        gangs=arguments.gangs,
        kueue=arguments.kueue,
    )
    spec = lifecycle.up(tool, arguments.name, wanted)
    tool.progress.say(f"Cluster {spec.name} is up: {spec.api_url}")
    tool.progress.hint(f"Next:  export KUBECONFIG={tool.cache.cluster(spec.name).kubeconfig}")
    tool.progress.hint(f"       {tool.binaries.path('kubectl')} get nodes")
    if not spec.control_plane_only:
        tool.progress.hint("       cluster/README.md tells how images and the chart come onto it")


def down(tool: Tool, arguments: argparse.Namespace) -> None:
    if arguments.all:
        for _, spec in list(clusters(tool.cache)):
            lifecycle.down(tool, spec.name)
        unmount_storage(tool.cache.image_storage)
        tool.progress.say("No cluster is left")
        return
    existed = lifecycle.down(tool, arguments.name)
    tool.progress.say(f"Cluster {arguments.name} is gone" if existed else f"There was no cluster {arguments.name}")


def status(tool: Tool, arguments: argparse.Namespace) -> None:
    spec = tool.spec(arguments.name)
    processes = tool.processes(tool.cache.cluster(spec.name))
    print(f"cluster {spec.name}: {spec.api_url}")
    records = {name: processes.running(name) for name in daemon_names(spec)}
    for name, record in records.items():
        print(f"  {name:<32} {f'running, pid {record.pid}' if record else f'stopped{_meaning(name)}'}")
    if told := processes.last_lines(KEEPER, _TOLD_LINES):
        print("\n  ".join(["What ended and was started again, at the end of its log:", *told]))
    if not all(records.values()):
        print(f"What is stopped starts again with: {up_again(spec)}")
    if spec.control_plane_only and not spec.fake_nodes:
        return
    if away := [name for name in SERVING if not records[name]]:
        print(f"Nodes cannot be asked for while {' and '.join(away)} {'is' if len(away) == 1 else 'are'} stopped")
    else:
        print(tool.kubectl(spec.name).run("get", "nodes"), end="")


def up_again(spec: ClusterSpec) -> str:
    """The `up` that starts what a cluster lacks, and asks for nothing else."""
    nodes = "--control-plane-only" if spec.control_plane_only else f"--nodes {spec.nodes}"
    simulated = f" --fake-nodes {spec.fake_nodes}" if spec.fake_nodes else ""
    return f"python -m sweyard_cluster up {nodes}{simulated} --name {spec.name}"


def _meaning(process: str) -> str:
    """What is dangerous and looks like nothing, in words."""
    return ": NetworkPolicies are not enforced on this node" if process.endswith("-kube-router") else ""


def kubeconfig(tool: Tool, arguments: argparse.Namespace) -> None:
    print(tool.cache.cluster(tool.spec(arguments.name).name).kubeconfig)


def registry(tool: Tool, arguments: argparse.Namespace) -> None:
    print(cluster_with_nodes(tool, arguments.name).addresses.registry)


def load(tool: Tool, arguments: argparse.Namespace) -> None:
    address = cluster_with_nodes(tool, arguments.name).addresses.registry
    builder = choose_builder(tool.cache, tool.progress)
    for wanted in arguments.images:
        for image, source in loading.sources(wanted, builder).items():
            name = f"{address}/{loading.name_in_cluster(image)}"
            with tool.progress.step(f"loading {image}"):
                digest = loading.push(source, name)
            print(f"{name}@{digest}" if arguments.pin else name)


def fail(tool: Tool, arguments: argparse.Namespace) -> None:
    spec = cluster_with_nodes(tool, arguments.name)
    faults.fail_node(tool, spec, arguments.node, faults.NETWORK if arguments.network else faults.POWER)
    lost = "network" if arguments.network else "power"
    tool.progress.say(f"{arguments.node} has no {lost}; Kubernetes notices within a minute")
    tool.progress.hint(f"Next:  python -m sweyard_cluster heal node {arguments.node} --name {spec.name}")


def heal(tool: Tool, arguments: argparse.Namespace) -> None:
    spec = cluster_with_nodes(tool, arguments.name)
    with tool.progress.step(f"healing {arguments.node}"):
        faults.heal_node(tool, spec, arguments.node)


def enter(tool: Tool, arguments: argparse.Namespace) -> None:
    spec = cluster_with_nodes(tool, arguments.name)
    node = faults.named_node(tool, spec, arguments.node)
    command = [*node.enter_command(), *(arguments.arguments or ["bash"])]
    os.execvpe(command[0], command, dict(node.environment()))


def images(tool: Tool, arguments: argparse.Namespace) -> None:
    IMAGE_COMMANDS[arguments.images_command](tool, arguments)


def images_tasks(tool: Tool, arguments: argparse.Namespace) -> None:
    builder = choose_builder(tool.cache, tool.progress)
    checkout = arguments.checkout.absolute()
    built = build_task_images(arguments.dataset.absolute(), checkout, tool.cache, builder, tool.progress)
    for repository, image in built.items():
        print(f"{repository} {image}")


def images_push(tool: Tool, arguments: argparse.Namespace) -> None:
    builder = choose_builder(tool.cache, tool.progress)
    ensure_packages({"skopeo": "skopeo"}, tool.progress)
    for wanted in arguments.images:
        for image, source in loading.sources(wanted, builder).items():
            name = f"{arguments.registry}/{loading.name_in_cluster(image)}"
            with tool.progress.step(f"pushing {image}"):
                digest = loading.push(source, name, plain_http=arguments.plain_http)
            print(f"{name}@{digest}")


def images_build(tool: Tool, arguments: argparse.Namespace) -> None:
    names = small_images() if arguments.all else arguments.names
    if not names:
        raise ClusterError(f"name images to build, of {', '.join(IMAGES)}, or use --all for the small ones")
    builder = choose_builder(tool.cache, tool.progress)
    sizes = build_images(names, arguments.checkout.absolute(), tool.cache, builder, tool.progress)
    for name, size in sizes.items():
        print(f"{image_tag(name):<40} {size / 1e6:>8.0f} MB")
    tool.progress.hint("Next:  python -m sweyard_cluster load " + " ".join(image_tag(name) for name in sizes))


def cluster_with_nodes(tool: Tool, name: str) -> ClusterSpec:
    spec = tool.spec(name)
    if spec.control_plane_only:
        raise ClusterError(f"cluster {name!r} is only a control plane; it has neither nodes nor a registry")
    return spec


def build(tool: Tool, arguments: argparse.Namespace) -> None:
    groups = groups_to_build(arguments.groups)
    tool.binaries.ensure(groups, tool.progress)
    for program in (program for group in groups for program in GROUPS[group]):
        print(tool.binaries.path(program))


def prerequisites(tool: Tool, _arguments: argparse.Namespace) -> None:
    """For a cluster with nodes and for the images that are loaded into it."""
    require_root("a cluster with nodes")
    packages = {**NODE_PACKAGES, **({} if docker_can_build() else BUILD_PACKAGES)}
    go = tool.binaries.environment_to_build(["control-plane", "node", "helm"])
    ensure_prerequisites(packages, tool.progress, go=go)


IMAGE_COMMANDS: dict[str, Callable[[Tool, argparse.Namespace], None]] = {
    "build": images_build,
    "push": images_push,
    "tasks": images_tasks,
}
COMMANDS: dict[str, Callable[[Tool, argparse.Namespace], None]] = {
    "up": up,
    "down": down,
    "status": status,
    "kubeconfig": kubeconfig,
    "registry": registry,
    "load": load,
    "fail": fail,
    "heal": heal,
    "enter": enter,
    "images": images,
    "prerequisites": prerequisites,
    "build": build,
}
