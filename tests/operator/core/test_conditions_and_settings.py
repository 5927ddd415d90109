"""Conditions keep their transition times; settings name what is wrong; logs carry their object."""

import json
import logging
from datetime import UTC, datetime

import pytest

from sweyard_operator.conditions import Condition, merge_conditions, moved_conditions, parse_time, rfc3339
from sweyard_operator.settings import SettingsError, read_settings
from sweyard_operator.structured_logs import JsonFormatter

EARLIER = datetime(2030, 1, 1, tzinfo=UTC)
LATER = datetime(2030, 1, 2, tzinfo=UTC)


def test_a_transition_time_moves_with_the_status_alone() -> None:
    first = merge_conditions([], [Condition("Ready", "False", "Starting", "a")], generation=1, now=EARLIER)
    second = merge_conditions(first, [Condition("Ready", "False", "Quota", "b")], generation=2, now=LATER)
    third = merge_conditions(second, [Condition("Ready", "True", "Ready", "c")], generation=2, now=LATER)
    assert [entry[0]["lastTransitionTime"] for entry in (first, second, third)] == [
        rfc3339(EARLIER),
        rfc3339(EARLIER),
        rfc3339(LATER),
    ]
    assert second[0]["observedGeneration"] == 2


def test_moved_conditions_are_those_with_another_status_or_reason() -> None:
    old = merge_conditions(
        [], [Condition("A", "True", "X", "1"), Condition("B", "True", "X", "1")], generation=1, now=LATER
    )
    new = [Condition("A", "True", "X", "2"), Condition("B", "True", "Y", "1"), Condition("C", "True", "X", "1")]
    assert [condition.type for condition in moved_conditions(old, new)] == ["B", "C"]


def test_times_survive_a_round_trip() -> None:
    assert parse_time(rfc3339(LATER)) == LATER


def test_settings_from_an_empty_environment_watch_the_whole_cluster() -> None:
    settings = read_settings({}, hostname="host", pid=7)
    assert (settings.namespaces, settings.identity, settings.kubeconfig) == ((), "host-7", None)


def test_settings_in_a_pod() -> None:
    environment = {"SWEYARD_WATCH_NAMESPACES": "b, a,,b", "POD_NAME": "operator-0", "POD_NAMESPACE": "system"}
    settings = read_settings(environment, hostname="host", pid=1)
    assert (settings.namespaces, settings.identity, settings.namespace) == (("a", "b"), "operator-0", "system")


@pytest.mark.parametrize("name", ["SWEYARD_HTTP_PORT", "SWEYARD_LEADER_LEASE_SECONDS"])
def test_a_wrong_number_is_named(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is 'many'"):
        read_settings({name: "many"}, hostname="host", pid=1)


@pytest.mark.parametrize("path", ["/crio.sock", "run/crio.sock", "/run/../crio.sock"])
def test_a_socket_whose_directory_is_the_whole_disk_is_refused(path: str) -> None:
    with pytest.raises(SettingsError, match=r"SWEYARD_RUNTIME_SOCKET is .* set it to the socket's path"):
        read_settings({"SWEYARD_RUNTIME_SOCKET": path}, hostname="host", pid=1)


def test_a_log_line_is_json_with_its_object() -> None:
    record = logging.LogRecord("sweyard", logging.INFO, "f", 1, "made %d", (3,), None)
    record.object = "RolloutPool/ns/pool"
    line = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["object"], line["level"]) == ("made 3", "RolloutPool/ns/pool", "info")
