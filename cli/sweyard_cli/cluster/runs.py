"""TrainingRuns on a cluster: applying one, following one, listing all."""

import time
from collections.abc import Mapping
from typing import Any

from kubernetes import client
from rich.console import Console

from sweyard_api.constants import GROUP, VERSION
from sweyard_api.kinds import TRAINING_RUN
from sweyard_cli.cluster.apply import apply
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.errors import UserError
from sweyard_cli.view.cluster_source import ClusterRunSource
from sweyard_cli.view.live import follow
from sweyard_cli.view.snapshot import TERMINAL_PHASES

POLL_SECONDS = 2.0
FAILED = 1


def apply_run(connection: Connection, document: Mapping[str, Any]) -> str:
    """A sentence on what came of it. Raises UserError if the API server refuses it, or if that run has ended."""
    applied = apply(connection, document)
    where = f"TrainingRun {connection.namespace}/{document['metadata']['name']}"
    phase = (applied.get("status") or {}).get("phase")
    if phase in TERMINAL_PHASES:
        raise UserError(f"{where} has ended ({phase}) and does not begin again: delete it, or choose another name")
    return f"{where} applied"


def follow_run(connection: Connection, name: str, console: Console) -> int:
    """Show it until it ends; 0 if it succeeded."""
    api = client.CustomObjectsApi(connection.api_client)
    source = ClusterRunSource(api, connection.namespace, name)
    final = follow(source, console, poll_seconds=POLL_SECONDS, sleep=time.sleep)
    if final.phase == "Succeeded":
        return 0
    console.print(f"{final.phase}: {final.message}", style="bold", markup=False)
    console.print(f"more: kubectl -n {connection.namespace} describe trainingrun {name}", markup=False)
    return FAILED


def list_runs(connection: Connection, *, everywhere: bool) -> list[dict[str, Any]]:
    """TrainingRuns as the API server has them. Raises UserError."""
    api = client.CustomObjectsApi(connection.api_client)
    with told_plainly("TrainingRuns cannot be listed"):
        try:
            if everywhere:
                found = api.list_cluster_custom_object(GROUP, VERSION, TRAINING_RUN.plural)
            else:
                found = api.list_namespaced_custom_object(GROUP, VERSION, connection.namespace, TRAINING_RUN.plural)
        except client.ApiException as error:
            if error.status == 404:
                raise UserError("this cluster knows no TrainingRuns: install the chart (helm install)") from error
            raise
    return list(found["items"])
