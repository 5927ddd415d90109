"""The configuration files of a node, as text."""

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from .addresses import Addresses
from .host import CNI_PLUGINS
from .host_state import MOUNT_POINTS

POD_PIDS_LIMIT = 2048
MAX_PODS = 600
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "pause:1"
STRICT_HANDLER = "strict"
"""A second runtime handler beside the default one, for pods with a runtimeClassName."""
STRICT_SPEC = "strict.json"
STRICT_LIMITS = {"RLIMIT_NOFILE": 1024, "RLIMIT_CORE": 0}


@dataclass(frozen=True)
class NodeFiles:
    """What the configuration of node `index` speaks of; `state` is the node's own directory."""

    name: str
    index: int
    addresses: Addresses
    state: Path
    pki: Path

    @property
    def cgroup(self) -> tuple[str, str]:
        return (self.addresses.bridge, self.name)

    def texts(self) -> dict[str, str]:
        """File below `state` to its content."""
        registry = self.addresses.registry
        return {
            "containerd.toml": containerd_config(self),
            "kubelet.yaml": kubelet_config(self),
            "kube-proxy.yaml": kube_proxy_config(self),
            "cni/10-ptp.conflist": cni_config(self),
            f"registries/{registry}/hosts.toml": registry_config(registry),
            "enter.sh": enter_script(self),
        }

    def write(self) -> None:
        """What differs alone: kube-proxy ends when its file is written, with the same text too."""
        for file, text in self.texts().items():
            place = self.state / file
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists() or place.read_text() != text:
                place.write_text(text)


def own_directory(mount_point: str) -> str:
    """Where, in the node's state, lies what it has at a mount point."""
    return "root/" + mount_point


def enter_script(node: NodeFiles) -> str:
    """Makes the fresh mount namespace the node's own, then becomes its first process ($1)."""
    binds = [f"mount --bind {node.state}/{own_directory(place)} /{place}" for place in MOUNT_POINTS]
    return "\n".join(
        [
            "set -e",
            # Volumes mounted by the kubelet must show in pods, and nothing of the node on the host.
            "mount --make-rshared /",
            # Older runtimes refuse a hybrid hierarchy whose v2 side has controllers.
            "umount /sys/fs/cgroup/unified 2>/dev/null || true",
            "mount -t tmpfs -o mode=755 tmpfs /run",
            "mkdir -p /run/lock /run/netns",
            *binds,
            f"hostname {node.name}",
            'exec "$1"\n',
        ]
    )


def containerd_config(node: NodeFiles) -> str:
    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    images = "plugins.'io.containerd.cri.v1.images'"
    return f"""\
version = 3
root = "{node.state}/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[{images}]
  snapshotter = "overlayfs"
  [{images}.pinned_images]
    sandbox = "{node.addresses.registry}/{PAUSE_IMAGE}"
  [{images}.registry]
    config_path = "{node.state}/registries"
[plugins.'io.containerd.internal.v1.opt']
  path = "{node.state}/opt"
[plugins.'io.containerd.grpc.v1.cri']
  disable_tcp_service = true
[{runtime}]
  # Root without the capability SYS_RESOURCE may not lower a process's score.
  restrict_oom_score_adj = true
  [{runtime}.containerd]
    default_runtime_name = "runc"
    [{runtime}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
    [{runtime}.containerd.runtimes.{STRICT_HANDLER}]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "{node.state}/{STRICT_SPEC}"
  [{runtime}.cni]
    bin_dirs = ["{CNI_PLUGINS}"]
    conf_dir = "{node.state}/cni"
"""


def strict_spec(default: str) -> str:
    """The runtime's default specification, with limits that no container of the class can raise."""
    spec = json.loads(default)
    spec["process"]["rlimits"] = [{"type": kind, "hard": most, "soft": most} for kind, most in STRICT_LIMITS.items()]
    return json.dumps(spec)


def kubelet_config(node: NodeFiles) -> str:
    """Thresholds are low because every node shares the host's disk and memory."""
    return yaml.safe_dump(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": "/" + "/".join(node.cgroup),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{node.pki}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{node.pki}/{node.name}.crt",
            "tlsPrivateKeyFile": f"{node.pki}/{node.name}.key",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "failSwapOn": False,
            "volumePluginDir": f"{node.state}/volume-plugins",
            "maxPods": MAX_PODS,
            "podPidsLimit": POD_PIDS_LIMIT,
            "resolvConf": "",
            "clusterDNS": [node.addresses.dns_service],
            "clusterDomain": "cluster.local",
            "serializeImagePulls": False,
            "registryPullQPS": 0,
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
            "imageGCHighThresholdPercent": 97,
            "imageGCLowThresholdPercent": 95,
            "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        },
        sort_keys=False,
    )


def kube_proxy_config(node: NodeFiles) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "hostnameOverride": node.name,
            "clusterCIDR": node.addresses.pod_network,
            "clientConnection": {"kubeconfig": f"{node.state}/kube-proxy.kubeconfig"},
            # The conntrack limits are the host's and read-only in other network namespaces.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        },
        sort_keys=False,
    )


def cni_config(node: NodeFiles) -> str:
    """A cable for each pod instead of a bridge: all is routed, so Services and policy see pods of one node too."""
    ipam = {
        "type": "host-local",
        "dataDir": "/var/lib/cni/networks",
        "ranges": [[{"subnet": node.addresses.node_pods(node.index)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "ptp", "plugins": plugins}, indent=2)


def registry_config(registry: str) -> str:
    return f'server = "http://{registry}"\n[host."http://{registry}"]\n  capabilities = ["pull", "resolve"]\n'
