"""The witness of the churn proof counts as etcd does."""

import base64
from typing import Any

from benchmarks.prove.pod_record import PodRecord


def put(name: str, created: int, modified: int | None = None) -> dict[str, Any]:
    key = base64.b64encode(f"/registry/pods/{name}".encode()).decode()
    return {"kv": {"key": key, "create_revision": str(created), "mod_revision": str(modified or created)}}


def delete(name: str, revision: int) -> dict[str, Any]:
    key = base64.b64encode(f"/registry/pods/{name}".encode()).decode()
    return {"type": "DELETE", "kv": {"key": key, "mod_revision": str(revision)}}


def test_a_pod_is_told_from_its_successor_and_the_most_is_kept() -> None:
    record = PodRecord()
    record.hear([put("a/x", 1), put("a/y", 2), put("b/x", 3), put("a/x", 1, 4), delete("a/x", 5), put("a/x", 6)])
    assert record.created == [("a/x", 1), ("a/y", 2), ("b/x", 3), ("a/x", 6)]
    assert record.deleted == [("a/x", 1)]
    assert record.most == {"a": 2, "b": 1}
    assert record.count == {"a": 2, "b": 1}


def test_what_is_told_twice_counts_once() -> None:
    record = PodRecord()
    events = [put("a/x", 1), delete("a/x", 2), put("a/x", 3)]
    record.hear(events)
    record.hear(events)
    assert len(record.created) == 2
    assert record.alive == {"a/x": 3}
