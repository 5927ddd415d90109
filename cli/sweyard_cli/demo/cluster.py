"""`sweyard demo --cluster native|kind|existing`: the same TrainingRun under the operator on a real Kubernetes."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kubernetes.client import CustomObjectsApi
from rich.console import Console

from sweyard_api.yaml_text import load_document
from sweyard_cli.cluster.connection import Connection, connect
from sweyard_cli.cluster.dataset import push_dataset
from sweyard_cli.demo.cluster_commands import Commands, host_commands, timed
from sweyard_cli.demo.cluster_install import (
    NAMESPACE,
    chart_values,
    install_chart,
    make_namespace,
    remove_earlier_run,
)
from sweyard_cli.demo.cluster_run import shortened
from sweyard_cli.demo.cluster_targets import Target, make_target
from sweyard_cli.demo.look import look_commands
from sweyard_cli.fetch.fetch import fetch_run
from sweyard_cli.fetch.shown import ShownProgress
from sweyard_cli.view.cluster_source import ClusterRunSource
from sweyard_cli.view.live import follow
from sweyard_cli.view.snapshot import RunSnapshot

COMPONENT_IMAGES = {"operator": "operator", "cacheAgent": "cache-agent"}
"""Our images by their names in the chart."""
POLL_SECONDS = 2.0


def run_cluster_demo(
    choice: str,
    file: Path,
    dataset: Path,
    output: Path,
    checkout: Path,
    registry: str,
    console: Console,
    begin: Callable[[], None],
) -> tuple[RunSnapshot, list[tuple[str, str]]]:
    """Cluster, images, chart, data set, run; what it wrote lies in `output` at the end, and how to look at its objects.

    The ways to look are (command, what it shows). `begin` is called when all is ready and `output` is about to be used.
    Raises UserError with a sentence where the choice cannot work, or a command fails.
    """
    target = make_target(choice, checkout, output.parent / ".demo", registry)
    target.check()
    with timed(console, f"cluster ({choice})"):
        commands = target.start(host_commands(console))
    runner = "base" if target.mounts_checkout else "trainer"
    with timed(console, "images"):
        images, task_images = bring_images(commands, target, runner, dataset, checkout)
    with timed(console, "operator"):
        values = chart_values(images, checkout if target.mounts_checkout else None)
        install_chart(commands, checkout / "charts" / "sweyard", values)
    run = shortened(load_document(file.read_text(encoding="utf-8")))
    name = str(run["metadata"]["name"])
    with timed(console, "data set"):
        make_namespace(commands)
        remove_earlier_run(commands, name)
        connection = connect(NAMESPACE, commands.environment.get("KUBECONFIG"))
        push_dataset(connection, str(run["spec"]["tasks"]["train"]["dataset"]), dataset, task_images)
    begin()
    final = _run(commands, connection, run, output)
    with timed(console, "files of the run"), ShownProgress(console) as told:
        fetch_run(connection, name, output, told)
    return final, look_commands(commands.environment, name)


def bring_images(
    commands: Commands, target: Target, runner: str, dataset: Path, checkout: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Names that pods use: of the components, as the chart calls them, and of the tasks by repository."""
    wanted = {**COMPONENT_IMAGES, "trainer": runner}
    commands.cluster_tool("images", "build", *wanted.values(), "--checkout", str(checkout))
    told = commands.cluster_tool("images", "tasks", str(dataset), "--checkout", str(checkout))
    tasks = dict(line.split() for line in told.splitlines())
    local = [f"localhost/sweyard/{name}:dev" for name in wanted.values()]
    brought = target.bring(commands, [*local, *tasks.values()])
    return dict(zip(wanted, brought, strict=False)), dict(zip(tasks, brought[len(wanted) :], strict=True))


def _run(commands: Commands, connection: Connection, run: Mapping[str, Any], output: Path) -> RunSnapshot:
    """Apply and follow to the end; interrupting leaves the run to the cluster."""
    import yaml

    output.mkdir(parents=True, exist_ok=True)
    manifest = output / "trainingrun.yaml"
    manifest.write_text(yaml.safe_dump(dict(run), sort_keys=False), encoding="utf-8")
    commands.run("kubectl", "-n", NAMESPACE, "apply", "-f", str(manifest))
    source = ClusterRunSource(CustomObjectsApi(connection.api_client), NAMESPACE, str(run["metadata"]["name"]))
    commands.console.print("in another terminal:", style="dim")
    for command, meaning in look_commands(commands.environment, str(run["metadata"]["name"])):
        commands.console.print(f"  {command}   # {meaning}", style="dim", markup=False, soft_wrap=True)
    return follow(source, commands.console, poll_seconds=POLL_SECONDS, sleep=time.sleep)
