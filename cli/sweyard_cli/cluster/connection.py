"""Connection: the API client of a kubeconfig, and the namespace it speaks of."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes import client, config

from sweyard_api.program import program
from sweyard_cli.cluster.checked_client import CheckedClient
from sweyard_cli.errors import UserError

POD_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Connection:
    """Where requests go."""

    api_client: client.ApiClient
    namespace: str


def connect(namespace: str | None = None, kubeconfig: str | None = None) -> Connection:
    """By a kubeconfig (None: the usual one) and its current context. Raises UserError if it cannot be used."""
    settings = client.Configuration()
    try:
        with _complaints_as_errors():
            config.load_kube_config(kubeconfig, client_configuration=settings)
        _, context = config.list_kube_config_contexts(kubeconfig)
        if not settings.host.startswith(("http://", "https://")):
            raise ValueError(f"`server` is {settings.host}: an address begins with https://")
    # The last three are what the library meets in a file that is no kubeconfig, or that holds half of a certificate.
    except (config.ConfigException, yaml.YAMLError, TypeError, ValueError, AttributeError) as error:
        where = kubeconfig or "of this user (KUBECONFIG, ~/.kube/config)"
        raise UserError(f"the kubeconfig {where} cannot be used: {error}; {without_cluster()}") from error
    return Connection(CheckedClient(settings), namespace or context["context"].get("namespace") or "default")


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(" ".join(record.getMessage().split())[:500])


@contextmanager
def _complaints_as_errors() -> Iterator[None]:
    """The library logs why a program that the kubeconfig names gave no credentials, and goes on without any."""
    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(complaints)
    if complaints.told:
        raise ValueError(f"the program that gives its credentials (users[].user.exec) failed: {complaints.told[0]}")


def connect_from_pod(namespace: str | None = None) -> Connection:
    """By the service account of the pod that this process runs in. Raises UserError outside of one."""
    settings = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=settings)
    except config.ConfigException as error:
        raise UserError(f"this is no pod with a service account: {error}") from error
    return Connection(CheckedClient(settings), namespace or POD_NAMESPACE_FILE.read_text(encoding="utf-8").strip())


def without_cluster() -> str:
    """What works where there is none."""
    return f"without a cluster use `{program()} run -f FILE` and `{program()} watch --output DIR`"
