"""Giving pods back for another use, and taking them again."""

import json
from typing import Any

import pytest
from tests.sandbox.pool_client import connect, eventually, status

from sweyard_sandbox.errors import FailureReason
from sweyard_sandbox.grading.sealed import acquire_sealed
from sweyard_sandbox.pool.credentials import Credentials
from sweyard_sandbox.pool.pods import explain_death
from sweyard_sandbox.runtimes.fake import FakeRuntime

PATH = "/api/v1/namespaces/default/pods/p-0"
RELEASE = "sweyard.dev/release"


def add_recyclable(api: Any) -> str:
    uid: str = api.add_pod("p-0", tell=False)
    pod = api.pod("p-0")
    pod["spec"]["restartPolicy"] = "Always"
    pod["status"]["containerStatuses"] = [{"name": "sandbox", "containerID": "c://0", "state": {"running": {}}}]
    api.put(PATH, pod)
    return uid


def free(api: Any, recycled: int) -> None:
    """As the operator does once the pod's new container is clean."""
    pod = json.loads(json.dumps(api.pod("p-0")))
    pod["metadata"]["annotations"] = {"sweyard.dev/holder": "", "sweyard.dev/recycled": str(recycled)}
    pod["status"]["containerStatuses"][0]["containerID"] = f"c://{recycled}"
    api.put(PATH, pod)


async def test_a_recycled_pod_is_claimed_again_by_who_gave_it_back(api: Any, credentials: Credentials) -> None:
    uid = add_recyclable(api)
    ends: list[str] = []

    async def end() -> bool:
        ends.append(api.pod("p-0")["metadata"]["annotations"][RELEASE])
        return True

    async with await connect(credentials) as pool:
        for use in range(3):
            pod = await pool.acquire_pod("i:1", deadline_seconds=5)
            assert (pod.uid, pod.recycled, pod.container_id) == (uid, use, f"c://{use}")
            await pool._claims.recycle(pod, end)
            assert api.holders() == {"p-0": "me"}, "the operator frees it, nobody else"
            free(api, use + 1)
    assert ends == ["c://0", "c://1", "c://2"], "said before the container ends"
    assert not [write for write in api.writes if write == f"DELETE {PATH}"]


@pytest.mark.parametrize("fails", ["mark", "end"])
async def test_what_cannot_be_recycled_is_deleted(api: Any, credentials: Credentials, fails: str) -> None:
    add_recyclable(api)

    async def end() -> bool:
        assert fails == "end", "a container that is not marked must not end"
        return False

    async with await connect(credentials) as pool:
        pod = await pool.acquire_pod("i:1", deadline_seconds=5)
        if fails == "mark":
            api.lies.append(lambda request: status(403, "Forbidden", "denied") if request.method == "PATCH" else None)
        await pool._claims.recycle(pod, end)
        api.lies.clear()
        assert api.holders() == {}


async def test_a_claim_in_its_name_that_a_holder_knows_nothing_of_is_given_back(
    api: Any, credentials: Credentials
) -> None:
    """Also when it has known an earlier use of the same pod."""
    add_recyclable(api)

    async def end() -> bool:
        return True

    async with await connect(credentials) as pool:
        await pool._claims.recycle(await pool.acquire_pod("i:1", deadline_seconds=5), end)
        pod = json.loads(json.dumps(api.pod("p-0")))
        pod["metadata"]["annotations"] = {"sweyard.dev/holder": "me", "sweyard.dev/recycled": "1"}
        api.put(PATH, pod)
        await eventually(lambda: not api.holders())


CONTAINER = {"name": "sandbox", "containerID": "c://0"}
OOM = {"containerID": "c://0", "reason": "OOMKilled", "exitCode": 137}


@pytest.mark.parametrize(
    ("container", "reason"),
    [
        ({**CONTAINER, "state": {"running": {}}}, None),
        ({**CONTAINER, "state": {"running": {}}, "lastState": {"terminated": {**OOM, "containerID": "c://x"}}}, None),
        ({**CONTAINER, "state": {"terminated": OOM}}, FailureReason.OOM_KILLED),
        ({**CONTAINER, "state": {"waiting": {}}, "lastState": {"terminated": OOM}}, FailureReason.OOM_KILLED),
        (
            {"name": "sandbox", "containerID": "c://1", "state": {"running": {}}, "lastState": {"terminated": OOM}},
            FailureReason.OOM_KILLED,
        ),
    ],
    ids=["lives", "an earlier use ended", "ended", "ended and waits", "replaced"],
)
def test_a_replaced_container_is_a_death(container: dict[str, Any], reason: FailureReason | None) -> None:
    pod = {"metadata": {"name": "p-0", "uid": "u"}, "status": {"phase": "Running", "containerStatuses": [container]}}
    error = explain_death(pod, "u", "c://0")
    assert (error.reason if error else None) == reason


async def test_a_sandbox_for_grading_needs_no_runtime_that_recycles() -> None:
    sandbox = await acquire_sealed(FakeRuntime(), "i:1", deadline_seconds=5)
    await sandbox.close()
