"""The command line's grammar."""

import argparse
from pathlib import Path

from .images import IMAGES, small_images
from .paths import DEFAULT_NAME
from .recipes import GROUPS

DESCRIPTION = """\
A real Kubernetes on one Linux machine without Docker: etcd, API server, controller manager, scheduler and, as root,
nodes in namespaces of their own with kubelet, containerd, kube-proxy, CoreDNS, an enforcer of NetworkPolicy and a
registry. Programs are built from pinned Go modules the first time (about 15 minutes with empty caches)."""

EPILOG = """\
examples:
  python -m sweyard_cluster up                          one real node (root)
  python -m sweyard_cluster up --nodes 3                three real nodes (root)
  python -m sweyard_cluster up --control-plane-only     API server and controllers, in seconds, without root
  export KUBECONFIG=$(python -m sweyard_cluster kubeconfig)
  python -m sweyard_cluster down                        leaves nothing behind

Everything lies under ~/.cache/sweyard (SWEYARD_CACHE names another place)."""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m sweyard_cluster",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default=DEFAULT_NAME, help="which cluster (default: %(default)s)")

    up = commands.add_parser("up", parents=[named], help="make or complete a cluster; safe to repeat")
    size = up.add_mutually_exclusive_group()
    size.add_argument("--nodes", type=int, default=None, metavar="N", help="real nodes (default: 1; needs root)")
    size.add_argument("--control-plane-only", action="store_true", help="no nodes; needs no root")
    up.add_argument("--fake-nodes", type=int, default=0, metavar="N", help="simulated nodes, by KWOK (default: 0)")
    up.add_argument("--audit", action="store_true", help="the API server writes an audit log of every request")
    up.add_argument("--gangs", action="store_true", help="PodGroups (alpha): the scheduler places their pods whole")
    up.add_argument("--kueue", action="store_true", help="with Kueue's queues; built from source the first time")

    down = commands.add_parser("down", parents=[named], help="remove a cluster and all that it made")
    down.add_argument(
        "--all", action="store_true", help="every cluster of this cache, and what image builds left mounted"
    )
    commands.add_parser("status", parents=[named], help="what runs, and the nodes")
    commands.add_parser("kubeconfig", parents=[named], help="print the path of the cluster's kubeconfig")
    commands.add_parser("registry", parents=[named], help="print the address of the cluster's registry")

    load = commands.add_parser("load", parents=[named], help="bring local images into the cluster's registry")
    load.add_argument("images", nargs="+", metavar="IMAGE|ARCHIVE", help="printed back: the name that pods use")
    load.add_argument("--pin", action="store_true", help="print names with the digest, which no node mistakes")

    for verb, what in (("fail", "take a node's power"), ("heal", "give a failed node back what it lost")):
        one = commands.add_parser(verb, parents=[named], help=what)
        one.add_argument("kind", choices=["node"])
        one.add_argument("node", metavar="NODE")
    commands.choices["fail"].add_argument("--network", action="store_true", help="cut only its network cable")

    images = commands.add_parser("images", help="build the product's images")
    image_commands = images.add_subparsers(dest="images_command", required=True, metavar="COMMAND")
    build_images = image_commands.add_parser("build", help="with docker or buildah, whichever is there")
    build_images.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(IMAGES)}")
    build_images.add_argument("--all", action="store_true", help=f"the small ones: {', '.join(small_images())}")
    task_images = image_commands.add_parser("tasks", help="images of a data set's repositories, each printed")
    task_images.add_argument("dataset", type=Path, metavar="FOLDER", help="as `sweyard tasks make` writes it")
    push = image_commands.add_parser("push", help="copy local images to a registry of yours; each name printed")
    push.add_argument("--registry", required=True, metavar="HOST[/PATH]", help="where you may push")
    push.add_argument("--plain-http", action="store_true", help="the registry has no TLS")
    push.add_argument("images", nargs="+", metavar="IMAGE")
    for command in (build_images, task_images):
        command.add_argument("--checkout", type=Path, default=Path(), help="where the sources are (default: here)")

    enter = commands.add_parser("enter", parents=[named], help="run a command inside a node, such as ctr or nft")
    enter.add_argument("node", metavar="NODE")
    enter.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND")

    commands.add_parser("prerequisites", help="install missing packages, or say what else is missing for `up`")

    build = commands.add_parser("build", help="build the programs, once")
    build.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (default: all but kueue)")
    return top
