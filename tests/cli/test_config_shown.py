"""The config on a report's page."""

from typing import Any

import pytest
import yaml
from tests.cli.conftest import TINY

from sweyard_api.resolve import dump_config, resolve
from sweyard_cli.report.config_shown import shown_config


def config(**spec: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(dump_config(resolve({**TINY, **spec})))
    return loaded


def test_on_a_cluster_all_of_it_is_shown() -> None:
    whole = config()
    assert yaml.safe_load(shown_config(whole, without_cluster=False)) == whole


def test_without_a_cluster_there_are_no_engines_volumes_and_pods() -> None:
    whole = config()
    shown = yaml.safe_load(shown_config(whole, without_cluster=True))
    assert not {"storage", "images", "restart", "suspend", "placementDeadlineSeconds"} & set(shown)
    assert shown["inference"] == {"maxModelLen": whole["inference"]["maxModelLen"]}
    assert shown["sandboxes"] == {"replicas": whole["sandboxes"]["replicas"]}
    assert {"resources", "tolerations"}.isdisjoint(shown["trainer"])
    assert shown["trainer"]["device"] == "cpu"
    for section in ("model", "tasks", "rollout", "algorithm", "optimizer", "checkpoint"):
        assert shown[section] == whole[section]


@pytest.mark.parametrize(
    ("section", "values"),
    [("inference", {"placement": "external", "url": "http://host:1"}), ("sandboxes", {"runtime": "local"})],
    ids=["an engine of one's own", "sandboxes by name"],
)
def test_what_the_user_chose_is_shown(section: str, values: dict[str, Any]) -> None:
    whole = config(**{section: values})
    assert yaml.safe_load(shown_config(whole, without_cluster=True))[section] == whole[section]


def test_an_unknown_config_is_not_shown() -> None:
    assert shown_config({}, without_cluster=True) == ""
