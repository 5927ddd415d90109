"""sweyard cache show: nodes by images, from the reports of the nodes."""

import json
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from sweyard_api.constants import LABEL_CACHE
from sweyard_cli.cache.heat_map import describe_failures, draw_row, show_holdings, split_columns
from sweyard_cli.cache.holdings import Holdings, plain_holdings, read_holdings
from sweyard_operator.build.cache_agent import build_assignment
from sweyard_operator.cache_agent.protocol import (
    REPORT_KEY,
    Assignment,
    ImageReport,
    ImageState,
    NodeReport,
    PullFailure,
    report_name,
)
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT

CACHE: dict[str, Any] = {
    "apiVersion": "sweyard.dev/v1alpha1",
    "kind": "ImageCache",
    "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
    "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Pulling", "message": "1 of 3"}]},
}
HELD, PULLING = ImageReport(state=ImageState.CACHED), ImageReport(state=ImageState.PULLING)
GONE = ImageReport(state=ImageState.FAILED, reason=PullFailure.NOT_FOUND, message="no such tag")


def report(node: str, **images: ImageReport) -> dict[str, Any]:
    said = NodeReport(node=node, images={f"{name}:1": one for name, one in images.items()}, used_bytes=3 * 10**9)
    metadata = {"name": report_name("c", node), "labels": {LABEL_CACHE: "c", LABEL_ROLE: ROLE_REPORT}}
    return {"metadata": metadata, "data": {REPORT_KEY: said.model_dump_json()}}


def assignment(node: str, *images: str) -> dict[str, Any]:
    return build_assignment(CACHE, node, Assignment(images=images, max_parallel_pulls=1))


def holdings() -> Holdings:
    """Of three nodes that take part and one that is lost."""
    told = assignment("n1", "b:1", "a:1", "c:1")
    reports = [report("n1", a=HELD, b=GONE), report("n2", b=GONE, c=PULLING), report("lost", a=HELD, b=GONE)]
    return read_holdings(CACHE, [told, assignment("n2", "b:1", "c:1"), assignment("n3", "a:1"), *reports], [])


def test_reports_and_assignments_become_states() -> None:
    found = holdings()
    assert found.condition == "Pulling: 1 of 3"
    assert found.images == ("b:1", "a:1", "c:1")
    assert found.states["n1"] == {"b:1": "failed", "a:1": "cached", "c:1": "waiting"}
    assert found.used_bytes["n1"] == 3 * 10**9


def test_machines_are_told_the_same() -> None:
    told = json.loads(json.dumps(plain_holdings("ns", holdings())))
    assert (told["namespace"], told["name"]) == ("ns", "c")
    nodes = {node["name"]: node for node in told["nodes"]}
    assert nodes["n1"]["images"] == {"b:1": "failed", "a:1": "cached", "c:1": "waiting"}
    assert [name for name, node in nodes.items() if not node["has_reported"]] == ["n3"]
    assert [name for name, node in nodes.items() if not node["takes_part"]] == ["lost"]
    [failure] = told["failures"]
    assert (failure["image"], failure["reason"], failure["nodes"]) == ("b:1", "NotFound", ["n1", "n2"])


def test_one_failure_of_many_nodes_is_one_line() -> None:
    assert list(describe_failures(holdings())) == ["failed: b:1 on n1, n2: NotFound: no such tag"]


def test_what_waits_for_a_registry_and_a_tag_that_moved_are_told_too() -> None:
    limited = ImageReport(state=ImageState.WAITING, reason=PullFailure.RATE_LIMITED, message="429")
    moved = ImageReport(state=ImageState.CACHED, reason=PullFailure.TAG_MOVED, message="moved")
    found = read_holdings(CACHE, [assignment("n1", "a:1", "b:1"), report("n1", a=limited, b=moved)], [])
    assert list(describe_failures(found)) == [
        "cached: b:1 on n1: TagMoved: moved",
        "waiting: a:1 on n1: RateLimited: 429",
    ]


def test_a_pipe_gets_a_line_for_each_node() -> None:
    console = Console(file=StringIO(), width=500)
    show_holdings(holdings(), console)
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue().splitlines()[:5] == [
        "ImageCache c: Pulling: 1 of 3",
        "lost: 1 of 2 images held, 1 failed, as last said: takes no part now, 3 GB used",
        "n1: 1 of 3 images held, 1 waiting, 1 failed, 3 GB used",
        "n2: 0 of 2 images held, 1 pulling, 1 failed, 3 GB used",
        "n3: 0 of 1 image held, 1 waiting, no report yet",
    ]


def test_a_terminal_gets_a_map() -> None:
    console = Console(file=StringIO(), width=100, force_terminal=True, color_system=None)
    show_holdings(holdings(), console)
    assert isinstance(console.file, StringIO)
    rows = [line.split() for line in console.file.getvalue().splitlines()]
    assert rows[2][:2] == ["n1", "✗█"]
    assert rows[3][:2] == ["n2", "✗·"]


@pytest.mark.parametrize(
    ("states", "cell"),
    [
        (("cached",) * 8, "█"),
        (("cached",) * 7 + ("pulling",), "▓"),
        (("cached",) + ("waiting",) * 7, "░"),
        (("waiting",) * 8, " "),
        (("failed",) + ("waiting",) * 7, "✗"),
        (("failed",) + ("cached",) * 7, "▓"),
        ((), "·"),
    ],
    ids=["all", "nearly", "few", "none", "failed", "failed-among-held", "not-here"],
)
def test_a_cell_is_the_share_that_is_held(states: tuple[str, ...], cell: str) -> None:
    images = [f"i{number}:1" for number in range(8)]
    row = draw_row({image: ImageState(state) for image, state in zip(images, states, strict=False)}, [images])
    assert row.plain == cell


def test_columns_are_equal_parts_in_order() -> None:
    columns = split_columns([str(number) for number in range(10)], 4)
    assert [len(column) for column in columns] == [2, 3, 3, 2]
    assert [image for column in columns for image in column] == [str(number) for number in range(10)]
    assert split_columns((), 4) == []
