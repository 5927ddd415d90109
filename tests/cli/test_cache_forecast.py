"""sweyard cache plan: what images on nodes will cost, by the operator's placement, before anything is pulled."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.constants import LABEL_CACHE
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_cli.cache.forecast import forecast, list_sizes, weigh
from sweyard_cli.cache.forecast_view import describe, size
from sweyard_cli.cache.on_nodes import Places, find_places
from sweyard_cli.cache.wanted import Wanted, find_wanted
from sweyard_cli.commands.cache import parse_bandwidth
from sweyard_cli.errors import UserError
from sweyard_operator.build.cache_pods import build_holding_pods
from sweyard_operator.cache_agent.protocol import REPORT_KEY, ImageReport, ImageState, NodeReport, report_name
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT
from sweyard_operator.observe.listed_images import listed_images, listed_sizes
from sweyard_operator.plan.placement import CacheNode

GB = 10**9
LAYERS = {
    "reg.io/f:1": {"base": 4 * GB, "one": GB},
    "reg.io/f:2": {"base": 4 * GB, "two": GB},
    "reg.io/g:1": {"other": 2 * GB},
}


def manifest_of(name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": name}
    return {"apiVersion": "sweyard.dev/v1alpha1", "kind": "ImageCache", "metadata": metadata}


def cache_file(folder: Path, **spec: Any) -> Path:
    file = folder / "cache.yaml"
    document = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "ImageCache", "metadata": {"name": "c"}, "spec": spec}
    file.write_text(json.dumps(document))
    return file


def test_layers_that_a_family_shares_weigh_once() -> None:
    weighed = {image.name: (image.num_bytes, image.shared_bytes) for image in weigh([*LAYERS, "reg.io/g:9"], LAYERS)}
    assert weighed["reg.io/f:1"] == (5 * GB, 4 * GB)
    assert weighed["reg.io/g:1"] == (2 * GB, 0)
    assert weighed["reg.io/g:9"] == (None, 0)
    told = forecast(list(LAYERS), LAYERS, Places((CacheNode("n1"),)), 1, disk_bytes_per_compressed=2.0)
    assert (told.pull_bytes, told.nodes[0].disk_bytes, told.single_bytes) == (8 * GB, 16 * GB, 8 * GB)


def test_sizes_are_listed_as_the_operator_reads_them() -> None:
    images = [*LAYERS, "reg.io/g:9"]
    config_map = {"data": {"images": list_sizes(images, LAYERS)}}
    assert listed_images(config_map) == tuple(images)
    assert listed_sizes(config_map)["reg.io/f:2"] == (5 * GB, 4 * GB)
    assert "reg.io/g:9" not in listed_sizes(config_map)


def test_what_is_needed_last_does_not_fit_and_is_named() -> None:
    places = Places((CacheNode("n1", budget_bytes=14 * GB),))
    told = forecast(list(LAYERS), LAYERS, places, 1, disk_bytes_per_compressed=2.0)
    assert told.nodes[0].left_out == told.unfit == ("reg.io/g:1",)
    assert told.nodes[0].disk_bytes <= 14 * GB


CACHED = ImageReport(state=ImageState.CACHED)


def report_of(node: str, *images: str, cache: str = "c", namespace: str = "ns", pulled: str = "") -> dict[str, Any]:
    said = NodeReport(node=node, images=dict.fromkeys(images, CACHED), pulled=tuple(pulled.split()))
    labels = {LABEL_CACHE: cache, LABEL_ROLE: ROLE_REPORT}
    metadata = {"name": report_name(cache, node), "namespace": namespace, "labels": labels}
    return {"metadata": metadata, "data": {REPORT_KEY: said.model_dump_json()}}


def test_what_nodes_hold_whoever_brought_it_is_not_pulled_again() -> None:
    mirror = [{"registry": "reg.io", "mirror": "m.test"}]
    spec = ImageCacheSpec.model_validate({"images": [*LAYERS], "copies": 1, "mirrors": mirror})
    wanted = Wanted("c", spec, tuple(LAYERS))
    reports = [
        report_of("n2", "m.test/f:2", "m.test/strange:1"),
        report_of("n2", "m.test/f:1", cache="other", namespace="far"),
        report_of("n1", cache="other", pulled="m.test/g:1"),
        report_of("gone", "m.test/g:1"),
    ]
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    holder = build_holding_pods(manifest_of("pods", "far"), spec, "n3", ["m.test/f:1", "m.test/f:2"])[0]
    holder["status"] = {
        "containerStatuses": [{"name": "image-0", "imageID": "1"}, {"name": "image-1", "state": waiting}]
    }
    places = find_places(wanted, "ns", {"n1": None, "n2": None, "n3": None, "n4": None}, reports, [holder])
    assert places.held is not None
    held = {node: set(images) for node, images in places.held.items() if node != "gone"}
    assert held == {"n1": {"reg.io/g:1"}, "n2": {"reg.io/f:1", "reg.io/f:2"}, "n3": {"reg.io/f:1"}}
    kept = {node.name: list(node.held) for node in places.nodes if node.held}
    assert kept == {"n2": ["reg.io/f:2"]}, "the operator asks this cache's own agents alone where to leave images"

    told = forecast(list(LAYERS), LAYERS, replace(places, nodes=places.nodes[1:2]), 1, disk_bytes_per_compressed=2.0)
    assert (told.num_images, told.num_held, told.num_reporting) == (3, 2, 1)
    assert (told.num_bytes, told.pull_bytes) == (8 * GB, 2 * GB)
    sentences = " ".join(describe(told, 1e9, pulls_on_demand=False))
    assert "3 copies, of which nodes hold 2 by their agents' reports, so 1 pull" in sentences
    assert "2 GB to pull (compressed, shared layers once a node), beside 6 GB on nodes" in sentences


def test_a_node_that_told_nothing_counts_as_empty_and_is_told_of() -> None:
    places = Places((CacheNode("n1"), CacheNode("n2")), {"n1": frozenset({"reg.io/g:1"})})
    told = forecast(["reg.io/g:1"], {}, places, 2, disk_bytes_per_compressed=2.0)
    sentences = list(describe(told, 1e9, pulls_on_demand=False))
    assert sentences[1].endswith("2 copies, of which nodes hold 1 by their agents' reports, so 1 pull")
    assert sentences[2] == "1 node told nothing, taken for empty: no agent of a cache has reported there"


def test_a_plan_without_sizes_counts(sweyard: Callable[..., Any], tmp_path: Path) -> None:
    images = [f"reg.io/f{number % 2}:{number}" for number in range(12)]
    result = sweyard("cache", "plan", "-f", cache_file(tmp_path, images=images, copies=2), "--nodes", "4")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "12 images in 2 families (images of one repository, which share layers)"
    assert lines[1] == "4 nodes, 2 copies of each image: 24 pulls"
    assert [line for line in lines if line.startswith("node-")] == [f"node-{n}: 6 images" for n in range(1, 5)]


def test_no_copies_say_that_the_first_use_pulls(sweyard: Callable[..., Any], tmp_path: Path) -> None:
    result = sweyard("cache", "plan", "-f", cache_file(tmp_path, images=["a:1"], copies=0), "--nodes", "4")
    assert "nothing is pulled ahead" in result.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nodes", "2", "--bandwidth", "fast"], "--bandwidth fast: write it like 1Gbit"),
        (["--nodes", "2", "--budget", "much"], "--budget much: is no quantity"),
        (["--nodes", "2", "--budget", "-5Gi"], "--budget -5Gi: is no quantity above zero"),
        (["--nodes", "2", "--disk-factor", "inf"], "100"),
        (["--nodes", "2000000000"], "10000"),
    ],
    ids=["bandwidth", "budget", "negative", "endless-factor", "too-many-nodes"],
)
def test_mistakes_are_one_sentence(sweyard: Callable[..., Any], tmp_path: Path, options: list[str], words: str) -> None:
    result = sweyard("cache", "plan", "-f", cache_file(tmp_path, images=["a:1"]), *options)
    assert result.exit_code == 2
    assert words in result.stderr


def test_images_of_a_run_come_from_its_tasks_each_once() -> None:
    listed = {"tasks": ["a:1", "b:1"], "more": ["b:1", "c:1"]}
    spec = {
        "preset": "tiny",
        "tasks": {"train": {"dataset": "tasks"}, "eval": [{"dataset": "more", "name": "more"}]},
        "images": {"copies": 2},
    }
    wanted = find_wanted({"kind": "TrainingRun", "metadata": {"name": "r"}, "spec": spec}, listed.get, [])
    assert wanted.images == ("a:1", "b:1", "c:1")
    assert wanted.spec.copies == 2


@pytest.mark.parametrize(
    ("images", "words"),
    [({"cacheRef": "shared"}, "uses the ImageCache shared"), ({"imagesFrom": "gone"}, "ConfigMap gone")],
    ids=["shared-cache", "missing-list"],
)
def test_what_cannot_be_planned_is_said(images: dict[str, Any], words: str) -> None:
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "t"}}, "images": images}
    with pytest.raises(UserError, match=words):
        find_wanted({"kind": "TrainingRun", "metadata": {"name": "r"}, "spec": spec}, lambda name: None, [])


@pytest.mark.parametrize(("text", "bits"), [("1Gbit", 1e9), ("500Mbit/s", 5e8), ("100MB/s", 8e8), ("2.5gbit", 2.5e9)])
def test_bandwidth(text: str, bits: float) -> None:
    assert parse_bandwidth(text) == bits


@pytest.mark.parametrize(("num_bytes", "told"), [(0, "0 B"), (999, "999 B"), (1_800_000_000, "1.8 GB"), (6e12, "6 TB")])
def test_sizes_are_told_in_decimal_units(num_bytes: float, told: str) -> None:
    assert size(num_bytes) == told


def test_without_a_cluster_a_missing_data_set_is_what_is_told(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise UserError("the kubeconfig cannot be used")

    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "absent"}}}
    with pytest.raises(UserError, match=r"dataset 'absent' is not in .*; nor can a cluster be asked: the kubeconfig"):
        find_wanted({"kind": "TrainingRun", "metadata": {"name": "r"}, "spec": spec}, refuse, [tmp_path])


def test_machines_are_told_a_plan_with_its_sums(sweyard: Callable[..., Any], tmp_path: Path) -> None:
    file = cache_file(tmp_path, images=list(LAYERS), copies=2)
    told = json.loads(sweyard("cache", "plan", "-f", file, "--nodes", "2", "-o", "json").stdout)
    assert (told["num_images"], told["num_held"], told["pull_bytes"]) == (6, 0, 0)
    assert [node["num_images"] for node in told["nodes"]] == [3, 3]
