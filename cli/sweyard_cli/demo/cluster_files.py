"""Bringing what a run wrote on its volume to this machine."""

import io
import json
import subprocess
import tarfile
from pathlib import Path

from sweyard_cli.demo.cluster_commands import Commands
from sweyard_cli.errors import UserError

READER = "sweyard-reader"
STORAGE = "/var/lib/sweyard"
FILES = ("summary.json", "progress.json", "metrics", "rollouts")


def reader_pod(image: str, claim: str) -> dict[str, object]:
    """A pod that sees the run's volume, for `tar`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": READER},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "reader",
                    "image": image,
                    "command": ["sleep", "600"],
                    "volumeMounts": [{"name": "storage", "mountPath": STORAGE, "readOnly": True}],
                }
            ],
            "volumes": [{"name": "storage", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


def fetch_run_files(commands: Commands, namespace: str, image: str, claim: str, output: Path) -> None:
    """Metrics, rollouts and summary into `output`. Raises UserError."""
    commands.run("kubectl", "-n", namespace, "delete", "pod", READER, "--ignore-not-found", shown=False)
    pod = json.dumps(reader_pod(image, claim))
    commands.run("kubectl", "-n", namespace, "apply", "-f", "-", input_text=pod, shown=False)
    try:
        ready = ("wait", "--for=condition=Ready", f"pod/{READER}", "--timeout=120s")
        commands.run("kubectl", "-n", namespace, *ready, shown=False)
        unpack(read_archive(commands, namespace), output)
    finally:
        commands.run("kubectl", "-n", namespace, "delete", "pod", READER, "--wait=false", shown=False)


def read_archive(commands: Commands, namespace: str) -> bytes:
    """A tar of those of FILES that exist."""
    script = f"cd {STORAGE} && tar -cf - $(ls -d {' '.join(FILES)} 2>/dev/null)"
    done = subprocess.run(
        ["kubectl", "-n", namespace, "exec", READER, "--", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=dict(commands.environment),
        check=False,
    )
    if done.returncode:
        raise UserError(f"the run's files could not be read: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


def unpack(archive: bytes, output: Path) -> None:
    """Nothing of the archive may lie outside of `output`."""
    output.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(output, filter="data")
