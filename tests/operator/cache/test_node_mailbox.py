"""The two objects of one agent on an API server: what it reads of them, and what it writes."""

import random
from typing import Any

from sweyard_api.constants import LABEL_CACHE
from sweyard_operator.cache_agent.node_mailbox import ConfigMapMailbox
from sweyard_operator.cache_agent.protocol import (
    ASSIGNMENT_KEY,
    REPORT_KEY,
    Assignment,
    NodeReport,
    assignment_name,
    report_name,
)
from sweyard_operator.cluster import Cluster
from sweyard_operator.contact import Contact
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT, read_reports
from sweyard_operator.resources import CONFIG_MAPS
from sweyard_operator.testing.fake_api import FakeApiServer

REPORT = NodeReport(node="n1", images={}, used_bytes=7)


def mailbox(api: FakeApiServer) -> ConfigMapMailbox:
    cluster = Cluster(api, Contact(lambda: 0.0), randomness=random.Random(0))
    return ConfigMapMailbox(cluster, namespace="team", cache="c", cache_uid="u", node="n1")


def put(api: FakeApiServer, name: str, **data: str) -> None:
    metadata: dict[str, Any] = {"name": name, "namespace": "team"}
    api.store.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


async def test_what_is_written_is_read_again_and_belongs_to_its_cache() -> None:
    api = FakeApiServer()
    agent = mailbox(api)
    assert await agent.read_report() is None
    await agent.write_report(REPORT)
    assert await agent.read_report() == REPORT
    written = api.store.get((CONFIG_MAPS, "team", report_name("c", "n1")))
    assert written is not None
    assert written["metadata"]["labels"] == {LABEL_CACHE: "c", LABEL_ROLE: ROLE_REPORT}
    assert read_reports([written]) == {"n1": REPORT}


async def test_what_cannot_be_read_counts_as_absent_and_is_written_anew() -> None:
    api = FakeApiServer()
    agent = mailbox(api)
    put(api, report_name("c", "n1"), **{REPORT_KEY: '{"node": "n1", "of": "a later version"}'})
    put(api, assignment_name("c", "n1"), **{ASSIGNMENT_KEY: "nonsense!"})
    assert (await agent.read_report(), await agent.read_assignment()) == (None, None)
    await agent.write_report(REPORT)
    assert await agent.read_report() == REPORT


async def test_an_assignment_is_read() -> None:
    api = FakeApiServer()
    wanted = Assignment(images=("a:1",), max_parallel_pulls=2)
    put(api, assignment_name("c", "n1"), **{ASSIGNMENT_KEY: wanted.model_dump_json()})
    assert await mailbox(api).read_assignment() == wanted
