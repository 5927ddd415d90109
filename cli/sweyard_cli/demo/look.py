"""How to look at the demo's run from any shell: objects, conditions, logs."""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from sweyard_api.constants import LABEL_COMPONENT, LABEL_RUN
from sweyard_cli.demo.cluster_install import NAMESPACE


def look_commands(environment: Mapping[str, str], run: str) -> list[tuple[str, str]]:
    """(command, what it shows), by the kubectl of the demo: its version is the cluster's."""
    kubectl = shutil.which("kubectl", path=environment.get("PATH")) or "kubectl"
    files = filter(None, environment.get("KUBECONFIG", "").split(os.pathsep))
    where = os.pathsep.join(str(Path(file).absolute()) for file in files)
    begin = (f"KUBECONFIG={shlex.quote(where)} " if where else "") + shlex.join([kubectl, "-n", NAMESPACE])
    trainer = f"{LABEL_RUN}={run},{LABEL_COMPONENT}=trainer"
    return [
        (f"{begin} get tr,rp,ic", "what is on the cluster"),
        (f"{begin} describe tr {run}", "what the run waits for, or why it failed"),
        (f"{begin} logs -l {trainer} --all-containers --tail=-1", "what its trainer says"),
    ]
