"""sweyard cache plan: what images on nodes will cost, by the operator's placement, before anything is pulled."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweyard_cli.cache.forecast import forecast, list_sizes, weigh
from sweyard_cli.cache.forecast_view import size
from sweyard_cli.cache.wanted import find_wanted
from sweyard_cli.commands.cache import parse_bandwidth
from sweyard_cli.errors import UserError
from sweyard_operator.observe.listed_images import listed_images, listed_sizes
from sweyard_operator.plan.placement import CacheNode

GB = 10**9
LAYERS = {
    "reg.io/f:1": {"base": 4 * GB, "one": GB},
    "reg.io/f:2": {"base": 4 * GB, "two": GB},
    "reg.io/g:1": {"other": 2 * GB},
}


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
    told = forecast(list(LAYERS), LAYERS, [CacheNode("n1")], 1, disk_bytes_per_compressed=2.0)
    assert (told.pull_bytes, told.nodes[0].disk_bytes, told.single_bytes) == (8 * GB, 16 * GB, 8 * GB)


def test_sizes_are_listed_as_the_operator_reads_them() -> None:
    images = [*LAYERS, "reg.io/g:9"]
    config_map = {"data": {"images": list_sizes(images, LAYERS)}}
    assert listed_images(config_map) == tuple(images)
    assert listed_sizes(config_map)["reg.io/f:2"] == (5 * GB, 4 * GB)
    assert "reg.io/g:9" not in listed_sizes(config_map)


def test_what_is_needed_last_does_not_fit_and_is_named() -> None:
    nodes = [CacheNode("n1", budget_bytes=14 * GB)]
    told = forecast(list(LAYERS), LAYERS, nodes, 1, disk_bytes_per_compressed=2.0)
    assert told.nodes[0].left_out == told.unfit == ("reg.io/g:1",)
    assert told.nodes[0].disk_bytes <= 14 * GB


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
    ],
    ids=["bandwidth", "budget"],
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
