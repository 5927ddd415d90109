"""A pool's sandboxes as cells: in which state, since when, and what keeps one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sweyard_cli.ui.pool_cells import cell_of, pool_view, stage_medians
from sweyard_operator.plan.sandbox import SandboxPod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def pod(slot: int = 0, **fields: Any) -> SandboxPod:
    known = {"name": f"p-{slot}", "uid": str(slot), "resource_version": "1", "slot": slot, "image": "python:3.12"}
    return SandboxPod(**{**known, "created_at": ago(100), **fields})


@pytest.mark.parametrize(
    ("fields", "state", "seconds"),
    [
        ({}, "scheduling", 100),
        ({"scheduled_at": ago(90)}, "networking", 90),
        ({"scheduled_at": ago(90), "networked_at": ago(80)}, "pulling", 80),
        ({"networked_at": ago(80), "started_at": ago(20), "is_running": True}, "starting", 20),
        ({"is_ready": True, "ready_changed_at": ago(10)}, "ready", 10),
        ({"is_ready": True, "holder": "trainer-0", "claimed_at": ago(5)}, "claimed", 5),
        ({"holder": "trainer-0", "claimed_at": ago(5), "release": "containerd://1"}, "resetting", 5),
        ({"holder": "trainer-0", "deletion_due_at": ago(1)}, "ending", 1),
        ({"phase": "Failed", "ended_at": ago(3)}, "failed", 3),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_sandbox_is_in_one_state_since_a_time(fields: dict[str, Any], state: str, seconds: float) -> None:
    cell = cell_of(pod(**fields), NOW)
    assert (cell["state"], cell["seconds"]) == (state, seconds)


def test_cells_keep_their_places_and_say_what_keeps_them() -> None:
    pool = {
        "metadata": {"namespace": "default", "name": "p"},
        "spec": {"replicas": 4},
        "status": {
            "ready": 1,
            "failures": {"OOMKilled": 2},
            "conditions": [{"type": "Degraded", "reason": "ImagePull", "message": "an image is not found"}],
        },
    }
    stuck = {"node": "n1", "waiting_reason": "ErrImagePull", "waiting_message": "not found"}
    view = pool_view(pool, [pod(2, **stuck), pod(1, **stuck), pod(0, is_ready=True, ready_changed_at=NOW)], NOW)
    assert [cell["id"] for cell in view["cells"]] == ["p-0", "p-1", "p-2"]
    assert view["cells"][1]["reason"] == "ImagePull: python:3.12: not found"
    assert view["failures"] == [("ImagePull on n1", 2), ("OOMKilled, replaced since the pool was made", 2)]
    assert (view["health"], view["message"], view["cap"], view["ready"]) == ("ImagePull", "an image is not found", 4, 1)


def test_a_stage_takes_what_it_takes_in_the_median_of_those_that_have_it_behind_them() -> None:
    pods = [
        pod(0, scheduled_at=ago(99), networked_at=ago(97)),
        pod(1, scheduled_at=ago(97)),
        pod(2, scheduled_at=ago(90)),
    ]
    assert stage_medians(pods) == [("scheduled", 3.0), ("networked", 2.0)]
