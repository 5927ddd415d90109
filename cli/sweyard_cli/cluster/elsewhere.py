"""Where a run is that was looked for in the wrong namespace."""

from kubernetes import client

from sweyard_api.constants import GROUP, VERSION
from sweyard_api.kinds import TRAINING_RUN
from sweyard_api.program import program
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.errors import UserError

REQUEST_TIMEOUT_SECONDS = 15
_ALL = "`{} status -A` lists all"


def told_elsewhere(api: client.CustomObjectsApi, name: str) -> str:
    """The namespaces that have a run of that name, with what to type; else how to list all runs."""
    try:
        with told_plainly("TrainingRuns cannot be listed"):
            found = api.list_cluster_custom_object(
                GROUP, VERSION, TRAINING_RUN.plural, _request_timeout=REQUEST_TIMEOUT_SECONDS
            )
    except UserError:  # who may look into one namespace alone is still told that nothing is there
        return _ALL.format(program())
    namespaces = sorted(run["metadata"]["namespace"] for run in found["items"] if run["metadata"]["name"] == name)
    if not namespaces:
        return _ALL.format(program())
    noun = "namespace" if len(namespaces) == 1 else "namespaces"
    return f"there is one of that name in {noun} {', '.join(namespaces)}: say -n {namespaces[0]}"
