"""Finding a run's files on a cluster: which claim, whether it still runs, and what its trainer's pods were like."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kubernetes import client

from sweyard_api.constants import CONFIG_KEY, GROUP, LABEL_COMPONENT, LABEL_RUN, VERSION, config_map_name
from sweyard_api.kinds import TRAINING_RUN
from sweyard_api.yaml_text import load_document
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.elsewhere import told_elsewhere
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.errors import UserError
from sweyard_cli.fetch.lender import Place
from sweyard_cli.view.snapshot import TERMINAL_PHASES

_OF_THE_POD = ("securityContext", "imagePullSecrets", "tolerations", "runtimeClassName")
_ON_ONE_NODE = {"ReadWriteOnce", "ReadWriteOncePod"}


class Cluster:
    """What of a run is asked for. Each call may raise UserError."""

    def __init__(self, connection: Connection, run: str) -> None:
        self._api = connection.api_client
        self._core = client.CoreV1Api(self._api)
        self._namespace = connection.namespace
        self._run = run

    def find(self, image: str | None) -> tuple[Place, str]:
        """Where its files are, and its resolved config as text. `image` takes the place of the trainer's."""
        run, config = self._training_run(), self._config()
        storage = load_document(config)["storage"]
        claim, trainer = storage.get("claimName") or self._run, self._trainer()
        chosen = image or (trainer["containers"][0]["image"] if trainer else None)
        if chosen is None:
            raise UserError(
                f"TrainingRun {self._namespace}/{self._run} has had no trainer, whose image would lend its files: it "
                "has written nothing yet, or name another image that has sh by --image"
            )
        place = Place(
            namespace=self._namespace,
            run=self._run,
            uid=run["metadata"]["uid"],
            claim=claim,
            sub_path=storage.get("subPath"),
            image=chosen,
            is_live=(run.get("status") or {}).get("phase") not in TERMINAL_PHASES,
            pod={name: trainer[name] for name in _OF_THE_POD if name in trainer},
        )
        return replace(place, node=self._node_of(claim)), config

    def _training_run(self) -> Mapping[str, Any]:
        api = client.CustomObjectsApi(self._api)
        where = f"TrainingRun {self._namespace}/{self._run}"
        with told_plainly(where):
            try:
                found = api.get_namespaced_custom_object(
                    GROUP, VERSION, self._namespace, TRAINING_RUN.plural, self._run
                )
            except client.ApiException as error:
                if error.status == 404:
                    raise UserError(f"{where} does not exist; {told_elsewhere(api, self._run)}") from error
                raise
        return dict(found)

    def _config(self) -> str:
        name = config_map_name(self._run)
        with told_plainly(f"the config of the run, ConfigMap {self._namespace}/{name}"):
            return str(self._core.read_namespaced_config_map(name, self._namespace).data[CONFIG_KEY])

    def _trainer(self) -> Mapping[str, Any]:
        """PodSpec of the newest trainer; empty if there is none."""
        selector = f"{LABEL_RUN}={self._run},{LABEL_COMPONENT}=trainer"
        with told_plainly(f"the Jobs of {self._namespace}/{self._run}"):
            jobs = client.BatchV1Api(self._api).list_namespaced_job(self._namespace, label_selector=selector)
        found = self._api.sanitize_for_serialization(jobs)["items"]
        newest = max(found, key=lambda job: str(job["metadata"]["creationTimestamp"]), default=None)
        return newest["spec"]["template"]["spec"] if newest else {}

    def _node_of(self, claim: str) -> str | None:
        """Where pods use the claim, if it can be on one node alone. Raises UserError if it is gone."""
        with told_plainly(f"the claim {self._namespace}/{claim}, in which the run's files are"):
            found = self._core.read_namespaced_persistent_volume_claim(claim, self._namespace)
            if not set(found.spec.access_modes) <= _ON_ONE_NODE:
                return None
            pods = self._core.list_namespaced_pod(self._namespace, field_selector="status.phase=Running")
        users = [pod for pod in pods.items if any(_claim_of(volume) == claim for volume in pod.spec.volumes or ())]
        return str(users[0].spec.node_name) if users else None


def _claim_of(volume: Any) -> str | None:
    source = volume.persistent_volume_claim
    return source and str(source.claim_name)
