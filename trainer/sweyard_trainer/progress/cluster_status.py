"""status.trainer of the run's TrainingRun, by server-side apply under our own field manager."""

import json
import re
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.config import ConfigException

from sweyard_api.constants import API_VERSION, FIELD_MANAGER_TRAINER, GROUP, VERSION
from sweyard_trainer.progress.reporter import StatusRefusedError, StatusUnavailableError

REQUEST_TIMEOUT_SECONDS = 10
_UNFIT = "failed to create typed patch object"
"""With status 500: the CRD has no such field, as one that is older than this trainer."""
_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")


class ClusterStatus:
    """StatusSink of one TrainingRun. Blocking: call it in a thread."""

    def __init__(self, api: client.CustomObjectsApi, namespace: str, run: str, uid: str) -> None:
        self._api = api
        self._namespace = namespace
        self._run = run
        self._uid = uid

    @classmethod
    def in_cluster(cls, namespace: str, run: str, uid: str) -> "ClusterStatus":
        """With the pod's own service account. Raises StatusUnavailableError outside of a cluster."""
        settings = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=settings)
        except ConfigException as error:
            raise StatusUnavailableError(str(error)) from error
        return cls(client.CustomObjectsApi(client.ApiClient(settings)), namespace, run, uid)

    def publish(self, report: dict[str, Any]) -> None:
        """The UID keeps the report of a deleted run off a new one of the same name."""
        body = {
            "apiVersion": API_VERSION,
            "kind": "TrainingRun",
            "metadata": {"name": self._run, "namespace": self._namespace, "uid": self._uid},
            "status": {"trainer": _applicable(report)},
        }
        try:
            self._api.patch_namespaced_custom_object_status(
                GROUP,
                VERSION,
                self._namespace,
                "trainingruns",
                self._run,
                body,
                field_manager=FIELD_MANAGER_TRAINER,
                force=True,
                _content_type="application/apply-patch+yaml",
                _request_timeout=REQUEST_TIMEOUT_SECONDS,
            )
        except client.ApiException as error:
            told = _told(error)
            is_passing = error.status == 429 or ((error.status or 0) >= 500 and _UNFIT not in told)
            raise (StatusUnavailableError if is_passing else StatusRefusedError)(told) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise StatusUnavailableError(f"{type(error).__name__}: {error}") from error


def _told(error: client.ApiException) -> str:
    """The API server's own sentence, if it is one that answers."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"


def _applicable(report: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty: applied over what had entries, an empty map becomes null, which is refused. So is an emoji
    as this client writes it: JSON's two escapes for it are none in YAML."""
    return {
        field: _BEYOND_16_BITS.sub("\ufffd", value) if isinstance(value, str) else value
        for field, value in report.items()
        if value != {}
    }
