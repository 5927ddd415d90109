"""The admission policies themselves."""

import json

import pytest

from sweyard_cluster.testing import TestCluster

pytestmark = pytest.mark.apiserver


def test_policies_compile_without_warnings(governed: TestCluster) -> None:
    policies = json.loads(governed.kubectl("get", "validatingadmissionpolicy", "-o", "json"))["items"]
    ours = [policy for policy in policies if policy["metadata"]["name"].startswith("sweyard-")]
    assert len(ours) == 5
    warnings = [policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings") for policy in ours]
    assert [warning for warning in warnings if warning] == []
