"""Chart, data set and run on a cluster, by the commands that a user would type."""

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sweyard_cli.demo.cluster_commands import Commands
from sweyard_cli.demo.cluster_targets import host_paths

NAMESPACE = "sweyard-demo"
SYSTEM_NAMESPACE = "sweyard-system"
DELETION_SECONDS = 330
"""A trainer has 300 s for its checkpoint."""


def chart_values(images: Mapping[str, str], checkout: Path | None) -> dict[str, Any]:
    """Values of the chart. `trainer` of the images runs trainer, gateway and engines: a built one, or, with `checkout`,
    a small one in which this machine's environment is mounted."""
    values: dict[str, Any] = {"images": {name: image_value(image) for name, image in images.items()}}
    if checkout is not None:
        values["development"] = {
            "image": images["trainer"],
            "python": str(Path(sys.prefix) / "bin" / "python"),
            "hostPaths": host_paths(checkout),
            "runAsUser": 0,
        }
    return values


def image_value(image: str) -> dict[str, str]:
    """An image's name as the chart takes it."""
    registry, _, name = image.rpartition("/")
    name, _, digest = name.partition("@")
    repository, _, tag = name.partition(":")
    return {"registry": registry, "repository": repository, "tag": tag, "digest": digest}


def install_chart(commands: Commands, chart: Path, values: Mapping[str, Any]) -> None:
    """`helm upgrade --install`, waiting for the operator."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(dict(values), file)
        file.flush()
        commands.run(
            *("helm", "upgrade", "--install", "sweyard", str(chart), "--namespace", SYSTEM_NAMESPACE),
            *("--create-namespace", "--values", file.name, "--wait", "--timeout", "180s"),
        )


def make_namespace(commands: Commands) -> None:
    """The demo's own."""
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    commands.run("kubectl", "apply", "-f", "-", input_text=json.dumps(manifest), shown=False)


def remove_earlier_run(commands: Commands, name: str) -> None:
    """A run is not repeated by applying it again: what an earlier demo left goes first, all of it."""
    commands.run("kubectl", "-n", NAMESPACE, "delete", "trainingrun", name, "--ignore-not-found", shown=False)
    waited = ("--for=delete", f"--timeout={DELETION_SECONDS}s")
    label = f"sweyard.dev/run={name}"
    for kind in ("pods", "persistentvolumeclaims"):
        commands.run("kubectl", "-n", NAMESPACE, "wait", kind, "-l", label, *waited, shown=False)
