"""What a holder says that it wants next, and that it stays said."""

import asyncio
import json
from typing import Any, cast

import pytest
from tests.sandbox.pool_client import connect, eventually, status

from sweyard_operator.testing.virtual_time import run_in_virtual_time
from sweyard_sandbox.pool.api import ApiClient, ApiError
from sweyard_sandbox.pool.credentials import Credentials
from sweyard_sandbox.pool.demand import Demand


async def test_announcing_is_one_write_and_replaces(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials) as pool:
        api.writes.clear()
        await pool.announce(["a:1", "b:1"])
        await pool.announce(["a:1", "b:1"])
        await pool.announce(["c:1"])
        assert api.demand("me") == ["c:1"]
        assert len(api.writes) == 2
        owner = api.objects["/api/v1/namespaces/default/configmaps/me"]["metadata"]["ownerReferences"][0]
        assert owner["kind"] == "Lease"


@pytest.mark.parametrize("code", [500, 404, 403])
async def test_what_cannot_be_announced_now_is_announced_later_unless_it_is_refused(
    api: Any, credentials: Credentials, code: int
) -> None:
    async with await connect(credentials) as pool:
        await pool.announce(["a:1"])
        api.lies.append(lambda request: status(code) if request.method == "PATCH" else None)
        if code == 403:
            with pytest.raises(ApiError):
                await pool.announce(["b:1"])
            return
        await pool.announce(["b:1"])
        assert api.demand("me") == ["a:1"]
        api.lies.clear()
        await eventually(lambda: api.demand("me") == ["b:1"])


async def test_a_claim_that_nobody_announced_becomes_demand_while_it_waits(api: Any, credentials: Credentials) -> None:
    async with await connect(credentials) as pool:
        task = asyncio.create_task(pool.acquire_pod("i:1", deadline_seconds=10))
        await eventually(lambda: api.demand("me") == ["i:1"])
        api.add_pod("p-0")
        await task
        await eventually(lambda: api.demand("me") == [])


async def test_claims_use_up_what_was_announced_with_few_writes(api: Any, credentials: Credentials) -> None:
    for number in range(20):
        api.add_pod(f"p-{number}")
    async with await connect(credentials) as pool:
        await pool.announce(["i:1"] * 20 + ["later:1"])
        await asyncio.gather(*(pool.acquire_pod("i:1", deadline_seconds=5) for _ in range(20)))
        await eventually(lambda: api.demand("me") == ["later:1"])
        assert sum("configmaps" in write for write in api.writes) <= 3


class OneConfigMap:
    """As much of an API server as a demand needs."""

    def __init__(self) -> None:
        self.images: list[str] | None = None

    async def request(self, method: str, _: str, *, body: Any, **__: Any) -> dict[str, Any]:
        if method == "PATCH" and self.images is None:
            raise ApiError(404, "NotFound", "")
        self.images = json.loads(body["data"]["demand.json"])["images"]
        return {}


@pytest.mark.parametrize("somebody", [None, ["other:1"]], ids=["removes-it", "changes-it"])
def test_demand_that_somebody_spoils_is_written_again_while_claims_wait(somebody: list[str] | None) -> None:
    async def main() -> None:
        server = OneConfigMap()
        demand = Demand(cast(ApiClient, server), namespace="n", pool="p", holder="h", lease_uid="u")
        keeping = asyncio.create_task(demand.keep())
        await demand.announce(["a:1"])
        demand.begin_waiting(["b:1"])
        await asyncio.sleep(1)
        server.images = somebody
        await asyncio.sleep(60)
        assert server.images == ["b:1", "a:1"]
        server.images = somebody
        await demand.announce(["c:1"])
        assert server.images == ["b:1", "c:1"]
        keeping.cancel()

    run_in_virtual_time(main())
