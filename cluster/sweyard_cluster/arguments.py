"""The command line's grammar."""

import argparse

from .paths import DEFAULT_NAME
from .recipes import GROUPS

DESCRIPTION = """\
A real Kubernetes on one Linux machine without Docker: etcd, API server, controller manager, scheduler and, as root,
nodes in namespaces of their own with kubelet, containerd, kube-proxy, CoreDNS, an enforcer of NetworkPolicy and a
registry. Programs are built from pinned Go modules the first time (about 10 minutes with empty caches)."""

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

    commands.add_parser("down", parents=[named], help="remove a cluster and all that it made")
    commands.add_parser("status", parents=[named], help="what runs, and the nodes")
    commands.add_parser("kubeconfig", parents=[named], help="print the path of the cluster's kubeconfig")

    build = commands.add_parser("build", help="build the programs, once")
    build.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (default: all)")
    return top
