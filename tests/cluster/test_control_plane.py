"""A control plane without nodes, as `up --control-plane-only` makes it."""

import json

import pytest

from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver


def test_serves_the_pinned_kubernetes_version(api_server: TestCluster) -> None:
    version = json.loads(api_server.kubectl("get", "--raw", "/version"))
    assert version["gitVersion"] == "v1.36.3"


def test_controllers_run(api_server: TestCluster) -> None:
    api_server.kubectl("create", "namespace", "controllers-run")
    api_server.kubectl("-n", "controllers-run", "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    api_server.kubectl("-n", "controllers-run", "create", "deployment", "web", "--image=example.test/none:1")
    api_server.kubectl("-n", "controllers-run", "wait", "--for=create", "pod", "-l", "app=web", "--timeout=30s")
    api_server.kubectl("delete", "namespace", "controllers-run", "--timeout=60s")
