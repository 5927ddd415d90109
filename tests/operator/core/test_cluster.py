"""The API client against the lying server: what is retried, what is typed, what is refused."""

import asyncio
import json
import random
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sweyard_operator.cluster import Cluster, WatchEvent
from sweyard_operator.contact import Contact
from sweyard_operator.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerError,
    StreamDeadError,
    TooManyRequestsError,
    UnreachableError,
    api_error,
)
from sweyard_operator.plan.plan import Deletion
from sweyard_operator.resources import CONFIG_MAPS, PODS
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.lies import Lies
from sweyard_operator.testing.virtual_time import run_in_virtual_time

Story = Callable[[Cluster, FakeApiServer], Coroutine[Any, Any, None]]


def play(story: Story, **lies: Any) -> None:
    async def main() -> None:
        api = FakeApiServer(Lies(random.Random(3), **lies))
        contact = Contact(asyncio.get_running_loop().time)
        await story(Cluster(api, contact, randomness=random.Random(0)), api)

    run_in_virtual_time(main())


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "labels": {"app": "x"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.mark.parametrize(
    "lies",
    [{"throttle_rate": 0.4}, {"error_rate": 0.4}, {"lost_request_rate": 0.4}],
    ids=lambda lies: next(iter(lies)),
)
def test_passing_troubles_are_retried(lies: dict[str, float]) -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        for number in range(20):
            await cluster.create(config_map(f"m{number}"))
        assert len(api.store.objects) == 20

    play(story, **lies)


def test_a_create_whose_reply_was_lost_makes_no_second_object() -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        for number in range(20):
            try:
                await cluster.create(config_map(f"m{number}"))
            except AlreadyExistsError:
                assert api.lies.lost_reply_rate
        assert len(api.store.history) == 20

    play(story, lost_reply_rate=0.4)


@pytest.mark.parametrize(
    ("lies", "error"),
    [
        ({"throttle_rate": 1.0}, TooManyRequestsError),
        ({"error_rate": 1.0}, ServerError),
        ({"is_down": True}, UnreachableError),
    ],
    ids=["429", "500", "down"],
)
def test_lasting_troubles_are_raised(lies: dict[str, Any], error: type[Exception]) -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        with pytest.raises(error):
            await cluster.get(CONFIG_MAPS, "ns", "m")

    play(story, **lies)


def test_retry_after_is_honoured() -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        started = asyncio.get_running_loop().time()
        with pytest.raises(TooManyRequestsError):
            await cluster.get(CONFIG_MAPS, "ns", "m")
        # Five pauses of at least the second that the server asked for.
        assert asyncio.get_running_loop().time() - started >= 5.0

    play(story, throttle_rate=1.0)


def test_lists_are_paged() -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        for number in range(1_201):
            api.store.create(CONFIG_MAPS, config_map(f"m{number}"))
        items, version = await cluster.list(CONFIG_MAPS, "ns", label_selector="app=x")
        assert len({item["metadata"]["name"] for item in items}) == 1_201
        assert items[0]["kind"] == "ConfigMap"
        assert int(version) == api.store.version
        assert len(api.requests) == 3

    play(story)


@pytest.mark.parametrize("wrong", ["uid", "resource_version"])
def test_delete_keeps_what_is_not_what_was_seen(wrong: str) -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        item = await cluster.create(config_map("m"))
        seen = {"uid": item["metadata"]["uid"], "resource_version": item["metadata"]["resourceVersion"], wrong: "7"}
        with pytest.raises(ConflictError):
            await cluster.delete(Deletion(CONFIG_MAPS, "ns", "m", **seen))
        assert len(api.store.objects) == 1

    play(story)


def test_apply_with_a_uid_never_creates_nor_touches_a_successor() -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        manifest = config_map("m", a="1")
        manifest["metadata"]["uid"] = "somebody"
        with pytest.raises(NotFoundError):
            await cluster.apply(manifest)
        await cluster.create(config_map("m"))
        with pytest.raises(ConflictError):
            await cluster.apply(manifest)

    play(story)


def test_apply_removes_what_it_no_longer_names_and_leaves_the_rest() -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        await cluster.apply(config_map("m", a="1", b="2"))
        await cluster.merge_patch(CONFIG_MAPS, "ns", "m", {"data": {"theirs": "3"}})
        answer = await cluster.apply(config_map("m", a="1"))
        assert answer["data"] == {"a": "1", "theirs": "3"}

    play(story)


def test_watch_goes_on_from_a_version_and_ends_in_silence() -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        first = await cluster.create(config_map("a"))
        await cluster.create(config_map("b"))
        events: list[WatchEvent] = []

        async def listen() -> None:
            async for event in cluster.watch(CONFIG_MAPS, "ns", resource_version=first["metadata"]["resourceVersion"]):
                events.append(event)
                api.lies.deaf_watches = True

        with pytest.raises(StreamDeadError):
            await listen()
        assert [(event.type, event.object["metadata"]["name"]) for event in events] == [("ADDED", "b")]

    play(story)


def test_watch_from_a_forgotten_version_says_so() -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        with pytest.raises(GoneError):
            async for _ in cluster.watch(PODS, "ns", resource_version="1"):
                pass

    play(story, gone_rate=1.0)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", InvalidError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (410, "Expired", GoneError),
        (413, "RequestEntityTooLarge", InvalidError),
        (422, "Invalid", InvalidError),
        (503, "", ServerError),
        (418, "", ApiError),
    ],
)
def test_statuses_have_types(status: int, reason: str, expected: type[ApiError]) -> None:
    body = json.dumps({"kind": "Status", "reason": reason, "message": "words"}).encode()
    error = api_error(status, body, {"Retry-After": "3"})
    assert type(error) is expected
    assert (error.message, error.retry_after_seconds) == ("words", 3.0)


WEBHOOK_DOWN = (
    'Internal error occurred: failed calling webhook "pods.mesh.example": failed to call webhook: Post '
    '"https://mesh.mesh.svc:443/inject?timeout=10s": dial tcp 10.96.12.7:443: connect: connection refused'
)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param(500, WEBHOOK_DOWN, id="a webhook that is down"),
        pytest.param(
            500, 'admission webhook "rules.example" denied the request: no GPUs', id="one with its own status"
        ),
        pytest.param(
            422,
            "jobs.batch \"demo\" is forbidden: ValidatingAdmissionPolicy 'quiet' with binding 'all' denied request: no",
            id="a policy",
        ),
    ],
)
def test_what_admission_refuses_is_no_outage_and_not_tried_six_times(status: int, words: str) -> None:
    async def story(cluster: Cluster, api: FakeApiServer) -> None:
        api.lies.refusing = {"POST configmaps": (status, words)}
        with pytest.raises(ForbiddenError, match=re.escape(words)):
            await cluster.create(config_map("m"))
        assert len(api.requests) == 1

    play(story)


def test_a_proxys_page_is_quoted_as_it_is() -> None:
    error = api_error(502, b"<html>bad gateway</html>", {})
    assert isinstance(error, ServerError)
    assert error.message == "<html>bad gateway</html>"


def test_outages_are_counted_by_gaps_between_replies() -> None:
    now = 0.0
    contact = Contact(lambda: now)
    for now in (0.0, 5.0, 10.0, 60.0, 65.0, 200.0):  # noqa: B007
        contact.heard(None)
    assert contact.outages == 2


def test_server_time_follows_the_servers_clock() -> None:
    contact = Contact(lambda: 0.0)
    contact.heard("Tue, 01 Jan 2030 00:00:00 GMT")
    assert contact.server_time().year == 2030
