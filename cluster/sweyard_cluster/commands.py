"""What each command does; standard output is for scripts, everything else goes to standard error."""

import argparse
from collections.abc import Callable

from . import lifecycle
from .errors import ClusterError
from .lifecycle import Tool
from .recipes import GROUPS


def up(tool: Tool, arguments: argparse.Namespace) -> None:
    nodes = 0 if arguments.control_plane_only else 1 if arguments.nodes is None else arguments.nodes
    if nodes < 1 and not arguments.control_plane_only:
        raise ClusterError(f"--nodes {nodes} must be 1 or more; for no nodes at all use --control-plane-only")
    spec = lifecycle.up(tool, arguments.name, nodes, arguments.fake_nodes, arguments.audit)
    say = tool.progress.say
    say(f"Cluster {spec.name} is up: {spec.api_url}")
    say(f"Next:  export KUBECONFIG={tool.cache.cluster(spec.name).kubeconfig}")
    say(f"       {tool.binaries.path('kubectl')} get nodes")


def down(tool: Tool, arguments: argparse.Namespace) -> None:
    existed = lifecycle.down(tool, arguments.name)
    tool.progress.say(f"Cluster {arguments.name} is gone" if existed else f"There was no cluster {arguments.name}")


def status(tool: Tool, arguments: argparse.Namespace) -> None:
    spec = tool.spec(arguments.name)
    processes = tool.processes(tool.cache.cluster(spec.name))
    print(f"cluster {spec.name}: {spec.api_url}")
    for name in processes.names():
        record = processes.running(name)
        print(f"  {name:<32} {f'running, pid {record.pid}' if record else 'stopped'}")
    if not spec.control_plane_only or spec.fake_nodes:
        print(tool.kubectl(spec.name).run("get", "nodes"), end="")


def kubeconfig(tool: Tool, arguments: argparse.Namespace) -> None:
    print(tool.cache.cluster(tool.spec(arguments.name).name).kubeconfig)


def build(tool: Tool, arguments: argparse.Namespace) -> None:
    groups = arguments.groups or list(GROUPS)
    if unknown := sorted(set(groups) - set(GROUPS)):
        raise ClusterError(f"GROUP {unknown[0]!r} is not one of {', '.join(GROUPS)}")
    tool.binaries.ensure(groups, tool.progress)
    for program in (program for group in groups for program in GROUPS[group]):
        print(tool.binaries.path(program))


COMMANDS: dict[str, Callable[[Tool, argparse.Namespace], None]] = {
    "up": up,
    "down": down,
    "status": status,
    "kubeconfig": kubeconfig,
    "build": build,
}
