"""Programs are built from what is checked first, with progress, and write nothing outside of the cache."""

import io
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from sweyard_cluster import prerequisites
from sweyard_cluster.binaries import Binaries, announcement
from sweyard_cluster.errors import ClusterError
from sweyard_cluster.paths import Cache
from sweyard_cluster.recipes import GROUPS, MODULES, groups_to_build
from sweyard_cluster.terminal import Progress


@pytest.mark.parametrize(
    ("told", "suffices"),
    [
        ("go version go1.26.8 linux/amd64", True),
        ("go version go1.21 linux/arm64", True),
        ("go version go1.19.8 linux/amd64", False),
        ("", False),
    ],
)
def test_a_go_that_can_fetch_the_pinned_one_suffices(told: str, suffices: bool) -> None:
    assert prerequisites.go_suffices(told) is suffices


def test_all_that_is_missing_is_told_at_once_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    packages = {"absent-one": "one", "absent-two": "two"}
    with pytest.raises(ClusterError) as raised:
        prerequisites.ensure(packages, Progress(io.StringIO()), go={})
    first, *lines = str(raised.value).splitlines()
    assert first == "this machine lacks what a cluster needs; install it and repeat:"
    assert ["apt-get install -y one two" in line for line in lines] == [True, False]
    assert "Go 1.21 or later" in lines[1]
    assert "https://go.dev/dl/" in lines[1]


def test_kueue_is_built_for_whoever_names_it_alone() -> None:
    assert groups_to_build([]) == ["control-plane", "node", "fake-nodes", "helm"]
    assert groups_to_build(["kueue"]) == ["kueue"]


def test_what_needs_no_build_needs_no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    prerequisites.ensure({}, Progress(io.StringIO()), go=None)


@pytest.mark.parametrize(
    ("programs", "sentence"),
    [
        (["helm"], "Building helm from source, once: up to 2 minutes with"),
        (["pause"], "Building pause from source, once: up to a minute with"),
        ([*GROUPS["control-plane"], *GROUPS["node"]], "Building 13 programs from source, once: up to 13 minutes with"),
    ],
    ids=["one", "a short one", "a cluster"],
)
def test_a_build_is_announced_with_its_own_time(programs: list[str], sentence: str) -> None:
    assert announcement(programs).startswith(sentence)


def test_go_writes_into_our_cache_and_reads_the_user_s_settings(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config" / "go").mkdir(parents=True)
    (home / ".config" / "go" / "env").write_text("GOSUMDB=off\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    cache = Cache(tmp_path / "cache")
    told = subprocess.run(
        ["go", "env", "-json"], env=Binaries(cache, environment).go_environment(), check=True, capture_output=True
    )
    values = json.loads(told.stdout)
    assert values["GOSUMDB"] == "off"
    for name in ("GOCACHE", "GOMODCACHE", "GOPATH", "GOTELEMETRYDIR"):
        assert values[name].startswith(f"{cache.root}/"), name
    prerequisites.ensure({}, Progress(io.StringIO()), go=Binaries(cache, environment).go_environment())
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["env"]


COMPILER = """#!/bin/sh
[ "$1" = version ] && { echo go version go1.26.8 linux/amd64; exit; }
while [ "$1" != -o ]; do shift; done
printf 'runtime\\nsweyard.dev/cluster/kubernetes/pause\\n' >&2
printf '#!/bin/sh\\necho 1\\n' >"$2/pause"
chmod +x "$2/pause"
"""


def test_a_pipe_is_told_of_each_program_of_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "go").write_text(COMPILER)
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    stream = io.StringIO()
    binaries = Binaries(Cache(tmp_path / "cache"), dict(os.environ))
    binaries.build(["pause"], Progress(stream))
    announced, began, compiled, done = stream.getvalue().splitlines()
    assert announced.startswith("Building pause from source")
    assert began == "  pause 1 ..."
    assert compiled == "    pause: 2 packages compiled, its own is the last"
    assert done.startswith("  pause 1: done")
    assert binaries.path("pause").exists()


@pytest.mark.parametrize("module", ["coredns", "helm"])
def test_what_a_program_shares_with_kubernetes_is_compiled_once(module: str) -> None:
    """Go takes a compiled package for another program only if it, and all that it imports, is of the same version."""
    kubernetes, own = _versions("kubernetes"), _versions(module)
    shared = kubernetes.keys() & own.keys()
    assert len(shared) > 30
    assert {name: own[name] for name in shared} == {name: kubernetes[name] for name in shared}


def _versions(module: str) -> dict[str, str]:
    """Versions by name of all that a go.mod requires, after its replacements."""
    text = (MODULES / module / "go.mod").read_text(encoding="utf-8")
    replaced = dict(re.findall(r"^(?:replace|\t)\s*(\S+) => \S+ (v\S+)", text, re.MULTILINE))
    required = dict(re.findall(r"^(?:require|\t)\s*(\S+) (v\S+)", text, re.MULTILINE))
    return {name: replaced.get(name, version) for name, version in required.items()}
