"""etcd, API server, controller manager and scheduler, on the host, and the keeper that starts them again."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from .api import Api
from .binaries import Binaries
from .paths import ClusterPaths
from .pki import issue, make_authority, write_kubeconfig
from .processes import ProcessRecord, ProcessTable
from .spec import ClusterSpec

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
PARTS = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
"""In the order in which they start."""
KEEPER = "keeper"
READY_SECONDS = 120.0

# A busy machine misses simulated heartbeats, and pods of a node once lost stay unready for good.
PATIENT_NODE_MONITOR = ("--node-monitor-period=600s", "--node-monitor-grace-period=3600s")
# The stock limit of 20 requests a second makes the controllers' own start last seconds.
BRISK_CLIENT = ("--kube-api-qps=200", "--kube-api-burst=400")
# Simulated nodes exist to load the API server with hundreds of pods a second.
FAST_CLIENT = ("--kube-api-qps=5000", "--kube-api-burst=10000")
GANGS = "--feature-gates=GenericWorkload=true,GangScheduling=true"
AUDIT_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, omitStages: [RequestReceived]}]\n"


@dataclass(frozen=True)
class ControlPlane:
    """Where the parts of one control plane lie."""

    spec: ClusterSpec
    paths: ClusterPaths
    binaries: Binaries
    processes: ProcessTable

    def start(self) -> None:
        """Start what does not run and wait until the API server serves; repeatable."""
        self.make_credentials()
        (self.paths.root / "audit-policy.yaml").write_text(AUDIT_POLICY)
        self.start_part(ETCD)
        self.start_part(API_SERVER)
        api = Api(self.paths.kubeconfig)
        self.processes.wait(API_SERVER, lambda: api.answers("/readyz"), READY_SECONDS, needs=[ETCD])
        self.start_part(CONTROLLER_MANAGER)
        self.start_part(SCHEDULER)
        first_account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.processes.wait(CONTROLLER_MANAGER, lambda: api.answers(first_account), READY_SECONDS)
        self._start_keeper()

    def start_part(self, name: str) -> ProcessRecord:
        """Start one of PARTS unless it runs. Raises ClusterError."""
        command = COMMANDS[name](self.binaries.path(name), self.spec, self.paths)
        return self.processes.start(name, command, self.binaries.environment)

    def _start_keeper(self) -> None:
        environment = self.binaries.environment
        path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), environment.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "sweyard_cluster.keeper", self.spec.name]
        self.processes.start(KEEPER, command, {**environment, "PYTHONPATH": path})

    def stop(self) -> None:
        for name in (KEEPER, *reversed(PARTS)):
            self.processes.stop(name)

    def make_credentials(self) -> None:
        pki, server = self.paths.pki, self.spec.api_url
        make_authority(pki)
        issue(pki, "apiserver", "/CN=kube-apiserver", apiserver_names(self.spec))
        issue(pki, "admin", "/O=system:masters/CN=sweyard-admin")
        issue(pki, "kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        issue(pki, "controller-manager", "/CN=system:kube-controller-manager")
        issue(pki, "scheduler", "/CN=system:kube-scheduler")
        # Shared by all nodes, which start at the same time.
        issue(pki, "kube-proxy", "/CN=system:kube-proxy")
        issue(pki, "kube-router", "/CN=sweyard:kube-router")
        context = f"sweyard-{self.spec.name}"
        for user in ("controller-manager", "scheduler"):
            write_kubeconfig(self.paths.root / f"{user}.kubeconfig", server, pki, user, context)
        write_kubeconfig(self.paths.kubeconfig, server, pki, "admin", context)


def apiserver_names(spec: ClusterSpec) -> list[str]:
    addresses = ["127.0.0.1", spec.addresses.host, spec.addresses.api_service]
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
             "kubernetes.default.svc.cluster.local"]  # fmt: skip
    return [f"IP:{address}" for address in addresses] + [f"DNS:{name}" for name in names]


def etcd_command(binary: Path, spec: ClusterSpec, paths: ClusterPaths) -> list[str]:
    """etcd without syncing to disk: a test cluster's data need not outlive the machine."""
    client = f"http://127.0.0.1:{spec.addresses.etcd_port}"
    peer = f"http://127.0.0.1:{spec.addresses.etcd_peer_port}"
    return [
        str(binary),
        f"--data-dir={paths.etcd}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def apiserver_command(binary: Path, spec: ClusterSpec, paths: ClusterPaths) -> list[str]:
    pki = paths.pki
    command = [
        str(binary),
        f"--etcd-servers=http://127.0.0.1:{spec.addresses.etcd_port}",
        f"--bind-address={spec.api_host}",
        f"--secure-port={spec.api_port}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        # A node's name is in no DNS.
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={spec.addresses.service_network}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--enable-aggregator-routing=true",
    ]
    if spec.control_plane_only:
        # No Endpoints may hold a loopback address, and nothing could use the Service `kubernetes` here.
        command += ["--endpoint-reconciler-type=none"]
    else:
        command += [f"--advertise-address={spec.addresses.host}"]
    if spec.fake_nodes:
        command += ["--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000"]
    if spec.gangs:
        command += [GANGS, "--runtime-config=scheduling.k8s.io/v1alpha2=true"]
    if spec.audit:
        command += [f"--audit-policy-file={paths.root}/audit-policy.yaml", f"--audit-log-path={paths.logs}/audit.log"]
    return command


def controller_manager_command(binary: Path, spec: ClusterSpec, paths: ClusterPaths) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={paths.root}/controller-manager.kubeconfig",
        "--secure-port=0",
        f"--service-account-private-key-file={paths.pki}/sa.key",
        f"--root-ca-file={paths.pki}/ca.crt",
        f"--cluster-signing-cert-file={paths.pki}/ca.crt",
        f"--cluster-signing-key-file={paths.pki}/ca.key",
        "--use-service-account-credentials=true",
        f"--flex-volume-plugin-dir={paths.root}/volume-plugins",
        "--leader-elect=false",
        *((*PATIENT_NODE_MONITOR, *FAST_CLIENT) if spec.fake_nodes else BRISK_CLIENT),
    ]


def scheduler_command(binary: Path, spec: ClusterSpec, paths: ClusterPaths) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={paths.root}/scheduler.kubeconfig",
        "--secure-port=0",
        "--leader-elect=false",
        *([GANGS] if spec.gangs else []),
        *(FAST_CLIENT if spec.fake_nodes else BRISK_CLIENT),
    ]


COMMANDS = {
    ETCD: etcd_command,
    API_SERVER: apiserver_command,
    CONTROLLER_MANAGER: controller_manager_command,
    SCHEDULER: scheduler_command,
}
"""How each part is started: of its program, the cluster's spec and its paths."""
