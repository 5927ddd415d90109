"""The cluster's bridge on the host, the cables to its nodes, and the way out for pods."""

import subprocess
from pathlib import Path

from .addresses import Addresses
from .errors import ClusterError


def command(*arguments: str, input_text: str | None = None) -> str:
    """Standard output of a system program; raises ClusterError with what it said on failure."""
    done = subprocess.run(arguments, input=input_text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def link_exists(name: str) -> bool:
    return Path(f"/sys/class/net/{name}").exists()


def delete_link(name: str) -> None:
    """Remove a link if it is there; a cable whose node just died may vanish by itself meanwhile."""
    try:
        command("ip", "link", "delete", name)
    except ClusterError:
        if link_exists(name):
            raise


def nat_table(addresses: Addresses) -> str:
    """nftables text: what leaves the cluster for the world does so under the host's address."""
    ours = ", ".join(addresses.networks)
    table = f"ip {addresses.bridge}"
    return (
        f"table {table} {{}}\ndelete table {table}\ntable {table} {{\n"
        "  chain postrouting {\n    type nat hook postrouting priority srcnat;\n"
        f'    ip saddr {{ {ours} }} ip daddr != {{ {ours} }} oifname != "{addresses.bridge}" masquerade\n  }}\n}}\n'
    )


def bridge_up(addresses: Addresses) -> None:
    """Make the bridge with the host's address on it, and the rule for the way out; repeatable."""
    bridge = addresses.bridge
    if not link_exists(bridge):
        command("ip", "link", "add", bridge, "type", "bridge")
    command("ip", "address", "replace", f"{addresses.host}/24", "dev", bridge)
    command("ip", "link", "set", bridge, "up")
    command("nft", "-f", "-", input_text=nat_table(addresses))


def bridge_down(addresses: Addresses) -> None:
    """Remove the bridge, its routes with it, and the rule."""
    delete_link(addresses.bridge)
    table = f"ip {addresses.bridge}"
    command("nft", "-f", "-", input_text=f"table {table} {{}}\ndelete table {table}\n")


def connect_node(addresses: Addresses, index: int, node_pid: int) -> None:
    """Lay the cable between the bridge and the network namespace of `node_pid`; repeatable."""
    cable = addresses.node_link(index)
    inside = ["nsenter", f"--net=/proc/{node_pid}/ns/net"]
    if not link_exists(cable):
        command("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(node_pid))
    command("ip", "link", "set", cable, "master", addresses.bridge, "up")
    lines = [
        "link set lo up",
        f"address replace {addresses.node(index)}/24 dev eth0",
        "link set eth0 up",
        f"route replace default via {addresses.host}",
    ]
    command(*inside, "ip", "-batch", "-", input_text="\n".join(lines) + "\n")
    command(*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    command("ip", "route", "replace", addresses.node_pods(index), "via", addresses.node(index))


def disconnect_node(addresses: Addresses, index: int) -> None:
    """Remove the cable and the route to the node's pods."""
    delete_link(addresses.node_link(index))
    if link_exists(addresses.bridge):
        shown = command("ip", "route", "show", addresses.node_pods(index))
        if shown.strip():
            command("ip", "route", "delete", addresses.node_pods(index))


def set_cable(addresses: Addresses, index: int, plugged: bool) -> None:
    """Network loss and its repair: the cable keeps its place but carries nothing."""
    command("ip", "link", "set", addresses.node_link(index), "up" if plugged else "down")
