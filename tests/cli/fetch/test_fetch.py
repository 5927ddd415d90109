"""sweyard fetch, against a server that lends a directory of this machine as a run's volume."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import kube_config
from tests.cli.fetch.cluster_of_one_run import WAITING, ClusterOfOneRun
from tests.cli.test_cluster_refusals import write_kubeconfig

from sweyard_cli.local.lock import LOCK_FILE

Sweyard = Callable[..., Any]
LARGE = b"0123456789abcdef" * 125_000
"""2 MB."""


@pytest.fixture
def cluster(
    make_run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClusterOfOneRun]:
    """Of a run that has ended, with a checkpoint; this machine knows no other."""
    volume = make_run().rename(tmp_path / "volume")
    (volume / "config.yaml").unlink()
    for name in ("checkpoints/step-2/shard", "model/model.safetensors", "weights/2/model.safetensors"):
        (volume / name).parent.mkdir(parents=True)
        (volume / name).write_bytes(LARGE)
    cluster = ClusterOfOneRun(volume)
    with cluster.served() as address:
        kubeconfig = str(write_kubeconfig(tmp_path / "kubeconfig", address, "n"))
        monkeypatch.setenv("KUBECONFIG", kubeconfig)
        monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", kubeconfig)  # the variable when it was loaded
        monkeypatch.chdir(tmp_path)
        yield cluster


def files_of(directory: Path) -> dict[str, bytes]:
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def test_a_run_is_fetched_and_read_as_one_of_this_machine(
    cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path
) -> None:
    cluster.storage = {"claimName": "runs", "subPath": "tiny"}
    result = sweyard("fetch", "tiny")
    assert result.exit_code == 0, result.output
    fetched, written = files_of(tmp_path / "runs/tiny"), files_of(cluster.volume)
    assert {name: fetched.pop(name) for name in ("config.yaml", "fetched.json")}["config.yaml"].startswith(b'{"mode')
    assert fetched == {n: c for n, c in written.items() if n.split("/")[0] in ("metrics", "rollouts", "progress.json")}
    assert "h1" in sweyard("rollouts", "list", "runs/tiny").stdout
    assert cluster.pods == {}
    (pod,) = cluster.made
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert (container["image"], spec["imagePullSecrets"]) == ("trainer:1", [{"name": "registry"}])
    assert spec["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["volumeMounts"][0]["readOnly"]
    assert container["volumeMounts"][0]["subPath"] == "tiny"
    assert not spec["automountServiceAccountToken"]
    assert "nodeSelector" not in spec
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "of-the-run"


def test_weights_come_if_they_are_asked_for_and_what_is_here_is_not_sent_again(
    cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path
) -> None:
    sweyard("fetch", "tiny", "--to", "here")
    (tmp_path / "here" / "report.html").write_text("of mine")
    cluster.sent.clear()
    assert "here already" not in sweyard("fetch", "tiny", "--to", "here", "--with", "checkpoints").stdout
    assert {"checkpoints/step-2/shard", "model/model.safetensors"} <= set(cluster.sent)
    cluster.sent.clear()
    (cluster.volume / "rollouts" / "step-000002.parquet").unlink()
    assert "2 of them here already" in sweyard("fetch", "tiny", "--to", "here", "--with", "checkpoints").stdout
    assert not {"checkpoints/step-2/shard", "model/model.safetensors"} & set(cluster.sent)
    assert sweyard("fetch", "tiny", "--to", "here").exit_code == 0
    found = files_of(tmp_path / "here")
    assert found["checkpoints/step-2/shard"] == LARGE
    assert found["report.html"] == b"of mine"
    assert "rollouts/step-000002.parquet" not in found


def test_a_fetch_that_broke_off_leaves_no_run_and_goes_on_where_it_was(
    cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path
) -> None:
    cluster.most_bytes = 3_000_000
    result = sweyard("fetch", "tiny", "--to", "here", "--with", "checkpoints")
    assert (result.exit_code, "what has come is kept" in result.stderr) == (1, True), result.output
    assert not (tmp_path / "here").exists()
    assert cluster.pods == {}
    cluster.most_bytes = None
    assert "1 of them here already" in sweyard("fetch", "tiny", "--to", "here", "--with", "checkpoints").stdout
    assert files_of(tmp_path / "here")["model/model.safetensors"] == LARGE


def test_what_was_fetched_stays_until_the_new_is_whole(
    cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path
) -> None:
    sweyard("fetch", "tiny", "--to", "here")
    before = files_of(tmp_path / "here")
    cluster.most_bytes = 1_000
    assert sweyard("fetch", "tiny", "--to", "here").exit_code == 1
    assert files_of(tmp_path / "here") == before


def test_what_was_there_survives_a_fetch_that_was_killed_between_its_two_renames(
    cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path
) -> None:
    sweyard("fetch", "tiny", "--to", "here")
    (tmp_path / "here/report.html").write_text("mine")
    before = files_of(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "here.fetching")
    (tmp_path / "here").rename(tmp_path / "here.replaced")
    assert sweyard("fetch", "tiny", "--to", "here").exit_code == 0
    assert files_of(tmp_path / "here") == before
    assert not (tmp_path / "here.replaced").exists()


def test_a_run_that_goes_on_is_fetched_as_it_is_now(cluster: ClusterOfOneRun, sweyard: Sweyard) -> None:
    cluster.run = {"status": {"phase": "Running"}}
    cluster.claim = {"accessModes": ["ReadWriteOnce"]}
    volume = {"name": "storage", "persistentVolumeClaim": {"claimName": "tiny"}}
    cluster.others = [{"metadata": {"name": "t"}, "spec": {"nodeName": "b", "containers": [], "volumes": [volume]}}]
    result = sweyard("fetch", "tiny")
    assert (result.exit_code, "the run goes on" in result.stdout) == (0, True), result.output
    affinity = cluster.made[0]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["b"]


def test_a_file_that_grows_while_it_is_read_comes_as_long_as_it_was_said_to_be(
    cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stat after which there is more in the file."""
    cluster.run = {"status": {"phase": "Running"}}
    metrics = cluster.volume / "metrics" / "metrics.jsonl"
    before = metrics.read_bytes()
    stat = tmp_path / "bin" / "stat"
    stat.parent.mkdir()
    stat.write_text(f'#!/bin/sh\n{shutil.which("stat")} "$@"; [ "$1" != -L ] || echo "{{}}" >>{metrics}\n')
    stat.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stat.parent}{os.pathsep}{os.environ['PATH']}")
    result = sweyard("fetch", "tiny", "--to", "here")
    assert result.exit_code == 0, result.output
    grown = (tmp_path / "here" / "metrics" / "metrics.jsonl").read_bytes()
    assert grown == before + b"{}\n" * grown[len(before) :].count(b"\n")
    assert len(metrics.read_bytes()) > len(grown)


def test_a_link_on_the_volume_is_neither_followed_nor_made(
    cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("of this machine")
    (cluster.volume / "metrics" / "link").symlink_to(secret)
    (cluster.volume / "metrics" / "file").symlink_to(secret / "key")
    os.mkfifo(cluster.volume / "metrics" / "pipe")
    (cluster.volume / "metrics" / "two\nlines").write_text("x")
    result = sweyard("fetch", "tiny", "--to", "here")
    assert result.exit_code == 0, result.output
    assert [p for p in (tmp_path / "here").rglob("*") if p.is_symlink()] == []
    assert not {"metrics/link/key", "metrics/file", "metrics/pipe", "metrics/two"} & set(files_of(tmp_path / "here"))


Change = Callable[[ClusterOfOneRun], None]
MULTI_ATTACH = 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) tiny-trainer-0'
NO_NODE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}],
}


def given(**fields: Any) -> Change:
    def change(cluster: ClusterOfOneRun) -> None:
        for name, value in fields.items():
            setattr(cluster, name, value)

    return change


REFUSED: dict[str, tuple[Change, str]] = {
    "no such run": (given(run=None), "TrainingRun n/tiny does not exist; `"),
    "no trainer yet": (given(trainers=[]), "has had no trainer, whose image would lend its files"),
    "no claim": (given(claim=None), 'n/tiny, in which the run\'s files are: persistentvolumeclaims "tiny" not found'),
    "may not": (given(refuses_pods="pods is forbidden: exceeded quota"), "pods is forbidden: exceeded quota"),
    "no node": (given(pod_status=NO_NODE), "did not start (--timeout waits longer): 0/3 nodes are available"),
    "in use elsewhere": (
        given(
            pod_status=WAITING,
            events=[{"metadata": {}, "involvedObject": {}, "type": "Warning", "message": MULTI_ATTACH}],
        ),
        f"did not start (--timeout waits longer): {MULTI_ATTACH}",
    ),
    "evicted": (given(pod_status={"phase": "Failed", "message": "the node is full"}), "failed: the node is full"),
    "nothing written": (lambda cluster: cluster.volume.rename(f"{cluster.volume}-2"), "cannot be read: "),
    "an empty volume": (
        lambda cluster: given(volume=cluster.volume / "model")(cluster),
        "has written no summary.json, progress.json, metrics",
    ),
}


@pytest.mark.parametrize(("change", "sentence"), REFUSED.values(), ids=REFUSED)
def test_why_it_cannot_be_is_told_in_a_sentence_and_no_pod_is_left(
    cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path, change: Change, sentence: str
) -> None:
    change(cluster)
    result = sweyard("fetch", "tiny", "--to", "here", "--timeout", "1")
    assert (result.exit_code in (1, 2), len(result.stderr.splitlines())) == (True, 1), result.output
    assert sentence in result.stderr
    assert cluster.pods == {}
    assert not (tmp_path / "here").exists()


def test_no_other_run_is_written_over(cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "progress.json").write_text("{}")
    result = sweyard("fetch", "tiny", "--to", "here")
    assert "here holds the files of another run, which stay" in result.stderr
    assert cluster.made == []


def test_a_directory_that_is_held_stays_so(cluster: ClusterOfOneRun, sweyard: Sweyard, tmp_path: Path) -> None:
    """As a demo holds the one into which it fetches."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / LOCK_FILE).touch()
    inode = (tmp_path / "here" / LOCK_FILE).stat().st_ino
    assert sweyard("fetch", "tiny", "--to", "here").exit_code == 0
    assert (tmp_path / "here" / LOCK_FILE).stat().st_ino == inode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_fetch_takes_its_pod_away(
    cluster: ClusterOfOneRun, tmp_path: Path, number: signal.Signals
) -> None:
    cluster.pod_status = WAITING
    command = [sys.executable, "-m", "sweyard_cli", "fetch", "tiny", "--to", "here"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not cluster.pods:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait() == 128 + number
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert cluster.pods == {}
