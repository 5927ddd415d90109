"""Which program comes from which pinned Go module, how its version is stamped and how it tells it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .errors import ClusterError

MODULES = Path(__file__).parent / "modules"
OURS = "sweyard.dev/cluster"


@dataclass(frozen=True)
class Recipe:
    """Programs built from one of our Go modules, all of one version.

    Those that can be compiled with the dependencies of Kubernetes' own release are of its module, and helm and CoreDNS
    are held to its versions of what they share with it, so that this is compiled once. A main package of ours takes
    the place of one that cannot be built from elsewhere, or that takes in much that is not used here.

    `packages` maps a program to its main package, whose last element is its name, `stamps` a linker variable to a
    template of the version, `version_commands` a program to the arguments that print its version.
    """

    module: str
    pins: str
    packages: dict[str, str]
    stamps: dict[str, str] = field(default_factory=dict)
    version_commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cold_seconds: int = 60
    """To build all of it with empty caches on two cores."""

    @property
    def directory(self) -> Path:
        return MODULES / self.module

    @property
    def files(self) -> list[Path]:
        return sorted(path for path in self.directory.rglob("*") if path.is_file())

    def version(self) -> str:
        return pinned_version((self.directory / "go.mod").read_text(), self.pins) if self.pins else "1"

    def linker_flags(self) -> str:
        version = self.version()
        minor = version.split(".")[1] if "." in version else "0"
        values = {name: template.format(version=version, minor=minor) for name, template in self.stamps.items()}
        return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])

    def version_command(self, program: str) -> tuple[str, ...]:
        return self.version_commands.get(program, ("--version",))


def pinned_version(go_mod: str, module: str) -> str:
    """The version, without its v, that a go.mod requires of `module`."""
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} v(\S+)", go_mod, re.MULTILINE)
    if not found:
        raise ClusterError(f"go.mod does not require {module}")
    return found[1]


KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "kube-proxy",
)
COMPONENT_VERSION = "k8s.io/component-base/version"
CONTAINERD = "github.com/containerd/containerd/v2"
KUBE_ROUTER = "github.com/cloudnativelabs/kube-router/v2"

RECIPES = (
    Recipe("kubernetes", "go.etcd.io/etcd/server/v3", {"etcd": f"{OURS}/kubernetes/etcd"}, cold_seconds=90),
    Recipe(
        "kubernetes",
        "k8s.io/kubernetes",
        {program: f"k8s.io/kubernetes/cmd/{program}" for program in KUBERNETES_PROGRAMS},
        # Without a stamped version the API server calls itself v0.0.0 and clients refuse it.
        stamps={
            f"{COMPONENT_VERSION}.gitVersion": "v{version}",
            f"{COMPONENT_VERSION}.gitMajor": "1",
            f"{COMPONENT_VERSION}.gitMinor": "{minor}",
            f"{COMPONENT_VERSION}.gitTreeState": "clean",
            "k8s.io/client-go/pkg/version.gitVersion": "v{version}",
        },
        version_commands={"kubectl": ("version", "--client")},
        cold_seconds=450,
    ),
    Recipe("kubernetes", "", {"pause": f"{OURS}/kubernetes/pause"}, cold_seconds=10),
    Recipe(
        "kubernetes",
        KUBE_ROUTER,
        {"kube-router": f"{OURS}/kubernetes/kube-router"},
        stamps={f"{KUBE_ROUTER}/pkg/version.Version": "v{version}"},
        cold_seconds=20,
    ),
    Recipe(
        "containerd",
        CONTAINERD,
        {name: f"{CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
        stamps={f"{CONTAINERD}/version.Version": "v{version}"},
        version_commands={"containerd-shim-runc-v2": ("-v",)},
        cold_seconds=120,
    ),
    Recipe(
        "coredns",
        "github.com/coredns/coredns",
        {"coredns": f"{OURS}/coredns/coredns"},
        version_commands={"coredns": ("-version",)},
        cold_seconds=90,
    ),
    Recipe(
        "kwok",
        "sigs.k8s.io/kwok",
        {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        stamps={"sigs.k8s.io/kwok/pkg/consts.Version": "v{version}"},
    ),
    Recipe(
        "kueue",
        "sigs.k8s.io/kueue",
        {"kueue": f"{OURS}/kueue/kueue"},
        stamps={"sigs.k8s.io/kueue/pkg/version.GitVersion": "v{version}"},
        cold_seconds=180,
    ),
    Recipe(
        "helm",
        "helm.sh/helm/v4",
        {"helm": "helm.sh/helm/v4/cmd/helm"},
        stamps={"helm.sh/helm/v4/internal/version.version": "v{version}"},
        version_commands={"helm": ("version", "--short")},
        cold_seconds=90,
    ),
)

GROUPS: dict[str, tuple[str, ...]] = {
    "control-plane": ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
    "node": (
        "pause", "kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr", "coredns", "kube-router",
    ),
    "fake-nodes": ("kwok",),
    "helm": ("helm",),
    "kueue": ("kueue",),
}  # fmt: skip
ON_DEMAND = ("kueue",)
"""Groups that are built for whoever names them alone."""


def groups_to_build(named: Sequence[str]) -> list[str]:
    """Those named, or else all that are not built on demand alone; raises ClusterError for one that is unknown."""
    if unknown := sorted(set(named) - set(GROUPS)):
        raise ClusterError(f"GROUP {unknown[0]!r} is not one of {', '.join(GROUPS)}")
    return list(named) or [group for group in GROUPS if group not in ON_DEMAND]


def recipes_for(programs: Iterable[str]) -> list[tuple[Recipe, list[str]]]:
    """The recipes that build `programs`, each with those that are wanted of it."""
    wanted = set(programs)
    plan = [(recipe, [program for program in recipe.packages if program in wanted]) for recipe in RECIPES]
    return [(recipe, chosen) for recipe, chosen in plan if chosen]
