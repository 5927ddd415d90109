"""CoreDNS as pods of the cluster: names of Services, and the host's resolvers for the rest of the world."""

import ipaddress
from typing import Any

NAMESPACE = "kube-system"
LABELS = {"k8s-app": "kube-dns"}


def upstream_resolvers(resolv_conf: str) -> list[str]:
    """The name servers that pods can reach too: not those on the host's loopback address."""
    lines = [line.split() for line in resolv_conf.splitlines()]
    servers = [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
    return [server for server in servers if not ipaddress.ip_address(server.partition("%")[0]).is_loopback]


def corefile(upstream: list[str]) -> str:
    forward = [f"    forward . {' '.join(upstream)}"] if upstream else []
    return "\n".join(
        [
            ".:53 {",
            "    errors",
            "    health",
            "    ready",
            "    kubernetes cluster.local in-addr.arpa ip6.arpa {",
            "        pods insecure",
            "    }",
            *forward,
            "    cache 30",
            "    loadbalance",
            "}",
            "",
        ]
    )


def dns_objects(image: str, service_address: str, upstream: list[str]) -> list[dict[str, Any]]:
    """Everything of CoreDNS, with one replica: one machine gains nothing from more."""
    named = {"name": "coredns", "namespace": NAMESPACE}
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "system:coredns"}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", **named}],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"Corefile": corefile(upstream)}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": NAMESPACE, "labels": LABELS},
            "spec": {
                "clusterIP": service_address,
                "selector": LABELS,
                "ports": [{"name": "dns", "port": 53, "protocol": "UDP"},
                          {"name": "dns-tcp", "port": 53, "protocol": "TCP"}],
            },
        },
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named, "spec": deployment_spec(image)},
    ]  # fmt: skip


def deployment_spec(image: str) -> dict[str, Any]:
    container = {
        "name": "coredns",
        "image": image,
        "args": ["-conf", "/etc/coredns/Corefile"],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    template = {"metadata": {"labels": LABELS}, "spec": pod}
    return {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
