"""What a cache's agents may write: reports of their own cache."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.chart.admission.accounts import CONFIG_MAPS, Account, Create, RefusedError

pytestmark = pytest.mark.apiserver


def node_report(name: str, **labels: str) -> dict[str, Any]:
    labels = {f"sweyard.dev/{key}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "b"}}


@pytest.fixture(scope="session")
def cache_agent(account: Callable[..., Account]) -> Account:
    """As the operator binds a cache's agents."""
    return account("images-cache-agent", "sweyard-cache-agent")


def apply_config_map(account: Account, manifest: dict[str, Any]) -> str:
    path = f"{CONFIG_MAPS}/{manifest['metadata']['name']}?fieldManager=sweyard-cache-agent&force=true"
    return account.call("PATCH", path, manifest, "application/apply-patch+yaml")


def test_a_cache_agent_writes_its_reports(cache_agent: Account) -> None:
    for _ in range(2):
        apply_config_map(cache_agent, node_report("images-node-1", cache="images", **{"cache-role": "report"}))


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"cache": "images"},
        {"cache": "images", "cache-role": "assignment"},
        {"cache": "other", "cache-role": "report"},
    ],
    ids=["no labels", "no role", "an assignment", "another cache's report"],
)
def test_a_cache_agent_writes_nothing_else(labels: dict[str, str], cache_agent: Account) -> None:
    with pytest.raises(RefusedError, match="only the reports of its own cache"):
        apply_config_map(cache_agent, node_report("new", **labels))


def test_a_cache_agent_does_not_turn_another_object_into_a_report(cache_agent: Account, create: Create) -> None:
    create(node_report("some-config"))
    with pytest.raises(RefusedError, match="only the reports of its own cache"):
        apply_config_map(cache_agent, node_report("some-config", cache="images", **{"cache-role": "report"}))
