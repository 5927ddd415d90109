"""A real API server that knows our kinds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, CustomObjectsApi
from kubernetes.config import new_client_from_config

from sweyard_api.constants import GROUP, VERSION
from sweyard_api.kinds import KINDS
from sweyard_cluster.testing import TestCluster

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def api_client(kinds: TestCluster) -> Iterator[ApiClient]:
    client = new_client_from_config(str(kinds.kubeconfig))
    yield client
    client.close()


@pytest.fixture(scope="session")
def dry_run(api_client: ApiClient) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Offer a manifest to the API server, strictly and without keeping it; returns what it would have stored.

    Raises kubernetes.client.ApiException with its answer.
    """
    custom_objects = CustomObjectsApi(api_client)
    plurals = {kind.name: kind.plural for kind in KINDS}

    def create(document: dict[str, Any]) -> dict[str, Any]:
        created: dict[str, Any] = custom_objects.create_namespaced_custom_object(
            GROUP, VERSION, "default", plurals[document["kind"]], document, dry_run="All", field_validation="Strict"
        )
        return created

    return create
