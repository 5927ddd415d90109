"""Stopping a run on a cluster and going on with it: `spec.suspend`, which a live run reads at any time."""

from kubernetes import client

from sweyard_api.constants import GROUP, VERSION
from sweyard_api.kinds import TRAINING_RUN
from sweyard_cli.cluster.apply import FIELD_MANAGER
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.elsewhere import told_elsewhere
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.errors import UserError
from sweyard_cli.view.snapshot import TERMINAL_PHASES


def set_suspended(connection: Connection, name: str, *, suspended: bool) -> bool:
    """Whether that changed anything. Raises UserError for a run that is not there, or has ended."""
    api = client.CustomObjectsApi(connection.api_client)
    place = (GROUP, VERSION, connection.namespace, TRAINING_RUN.plural, name)
    where = f"TrainingRun {connection.namespace}/{name}"
    with told_plainly(where):
        try:
            run = api.get_namespaced_custom_object(*place)
        except client.ApiException as error:
            if error.status == 404:
                raise UserError(f"{where} does not exist; {told_elsewhere(api, name)}") from error
            raise
        phase = (run.get("status") or {}).get("phase")
        if phase in TERMINAL_PHASES:
            raise UserError(f"{where} has ended ({phase}): there is nothing to stop, or to go on with")
        if bool(run["spec"].get("suspend")) is suspended:
            return False
        # The version that was looked at: a run that ends meanwhile is not told that it will stop.
        metadata = {"resourceVersion": run["metadata"]["resourceVersion"]}
        body = {"metadata": metadata, "spec": {"suspend": suspended}}
        merge = "application/merge-patch+json"
        api.patch_namespaced_custom_object(*place, body, field_manager=FIELD_MANAGER, _content_type=merge)
    return True
