"""Alerts and dashboard speak of metrics that exist, with labels that these have."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweyard_operator.metrics import Metrics
from sweyard_operator.run_metrics import RunMetrics

MONITORING = Path(__file__).parents[2] / "charts" / "sweyard" / "files" / "monitoring"
ALERTS = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]

_NAME = re.compile(r"\bsweyard_[a-z_]+")
_SELECTOR = re.compile(r"\b(sweyard_[a-z_]+)\{([^}]*)\}")
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
_ADDED = {"histogram": {"le"}}


def expressions() -> Iterator[Any]:
    for rule in RULES:
        yield pytest.param(rule["expr"], id=rule["alert"])
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield pytest.param(target["expr"], id=panel["title"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield pytest.param(variable["query"], id=f"variable {variable['name']}")


@pytest.fixture(scope="module")
def labels_by_metric() -> Mapping[str, set[str]]:
    """Every series of the operator, by the name that Prometheus stores it under."""
    registry = Metrics().registry
    RunMetrics(registry)
    found = {}
    for collector in list(registry._collector_to_names):
        kind = collector._type  # type: ignore[attr-defined]
        for suffix in _SUFFIXES[kind]:
            labels = set(collector._labelnames) | _ADDED.get(kind, set())  # type: ignore[attr-defined]
            found[f"{collector._name}{suffix}"] = labels  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("expression", list(expressions()))
def test_every_metric_and_label_exists(expression: str, labels_by_metric: Mapping[str, set[str]]) -> None:
    names = _NAME.findall(expression)
    assert names
    for name in names:
        assert name in labels_by_metric
    for name, selector in _SELECTOR.findall(expression):
        assert set(re.findall(r"(\w+)\s*[=!]", selector)) <= labels_by_metric[name]
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert {label.strip() for label in grouped.split(",")} <= set.union(*(labels_by_metric[name] for name in names))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_to_do(rule: dict[str, Any], labels_by_metric: Mapping[str, set[str]]) -> None:
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"].keys() == {"summary", "description"}
    told = set(re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())))
    assert told <= set().union(*(labels_by_metric[name] for name in _NAME.findall(rule["expr"])))


def test_panels_do_not_overlap() -> None:
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
