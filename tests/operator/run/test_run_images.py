"""The images of a run's tasks are held by its own ImageCache."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sweyard_api.problem import InvalidSpecError
from sweyard_api.resolve import resolve
from sweyard_operator.plan.task_images import with_task_images
from sweyard_operator.resources import CONFIG_MAPS, IMAGE_CACHES, ROLLOUT_POOLS
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]
TINY = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}}


def images_of(datasets: dict[str, tuple[str, ...] | None], **images: Any) -> tuple[list[str], str | None]:
    config = with_task_images(resolve({**TINY, "images": images}), datasets)
    return config.images.images, config.images.images_from


@pytest.mark.parametrize(
    ("datasets", "images", "expected"),
    [
        pytest.param({"a": ("i:1", "i:2")}, {}, ([], "a"), id="one data set by reference"),
        pytest.param({"a": ("i:1",), "b": ("i:2", "i:1")}, {}, (["i:1", "i:2"], None), id="several as their union"),
        pytest.param({"a": ("i:1",)}, {"images": ["i:9"]}, (["i:9", "i:1"], None), id="beside the user's own"),
        pytest.param({"a": ("i:1",)}, {"fromTasks": False}, ([], None), id="not wanted"),
        pytest.param({"a": ("i:1",)}, {"cacheRef": "shared"}, ([], None), id="a shared cache is left alone"),
        pytest.param({"a": (), "b": None}, {}, ([], None), id="no images listed"),
    ],
)
def test_images_of_tasks(
    datasets: dict[str, tuple[str, ...] | None], images: dict[str, Any], expected: tuple[list[str], str | None]
) -> None:
    assert images_of(datasets, **images) == expected


def test_more_images_than_a_cache_lists_are_refused_with_the_way_out() -> None:
    many: dict[str, tuple[str, ...] | None] = {
        name: tuple(f"{name}:{number}" for number in range(600)) for name in ("a", "b")
    }
    with pytest.raises(InvalidSpecError, match=r"1200 images, more than the 1000 .* images.cacheRef"):
        images_of(many)


def test_a_run_waits_until_its_cache_holds_the_images_of_its_tasks(make_world: Make) -> None:
    world = make_world()
    world.datasets = {"tiny": ("i:1", "i:2")}
    world.settle()
    cache = world.objects[IMAGE_CACHES, "demo"]
    assert cache["spec"]["imagesFrom"] == "tiny"
    assert world.condition("ImagesReady")["status"] == "False"
    world.datasets = {}  # as they are once the trainer has begun: the stored config knows
    world.settle()
    assert "imagesFrom: tiny" in world.objects[CONFIG_MAPS, "demo-config"]["data"]["config.yaml"]
    assert world.condition("ImagesReady")["status"] == "False"


def test_nothing_is_made_before_the_data_sets_exist(make_world: Make) -> None:
    world = make_world()
    world.datasets = {"tiny": None}
    world.settle()
    assert not world.objects
    assert (
        world.condition("ImagesReady")["message"] == "the images of data set tiny, which does not exist, are not known"
    )
    world.datasets = {"tiny": ("i:1",)}
    world.settle()
    assert world.objects[IMAGE_CACHES, "demo"]["spec"]["imagesFrom"] == "tiny"


def test_the_cache_goes_with_the_end_of_the_run_and_outlives_a_pause(make_world: Make) -> None:
    world = make_world()
    world.datasets = {"tiny": ("i:1",)}
    world.settle()
    world.run["spec"]["suspend"] = True
    world.settle()
    assert (IMAGE_CACHES, "demo") in world.objects
    world.run["spec"] |= {"suspend": False, "activeDeadlineSeconds": 60}
    world.settle()
    world.now += timedelta(minutes=2)
    world.settle()
    assert world.condition("Failed")["reason"] == "DeadlineExceeded"
    assert (IMAGE_CACHES, "demo") not in world.objects


@pytest.mark.parametrize(
    ("num_bytes", "told"),
    [(0, "0 of 2 images are on their nodes"), (48e6, "nodes (48 MB on disk)"), (2.35e9, "nodes (2.4 GB on disk)")],
    ids=["nothing yet", "some", "much"],
)
def test_images_on_their_way_are_told_with_what_came_of_them(make_world: Make, num_bytes: float, told: str) -> None:
    world = make_world()
    world.datasets = {"tiny": ("i:1", "i:2")}
    world.settle()
    ready = {"type": "Ready", "status": "False", "reason": "Pulling", "message": "0 of 2 images are on their nodes"}
    world.objects[IMAGE_CACHES, "demo"]["status"] = {"total": 2, "bytes": int(num_bytes), "conditions": [ready]}
    world.settle()
    assert world.condition("ImagesReady")["message"].endswith(told)


@pytest.mark.parametrize(
    ("own", "expected"), [([], ["hub"]), (["mine"], ["mine"])], ids=["as the cache", "as the sandboxes say"]
)
def test_sandboxes_pull_with_the_secrets_of_their_runs_cache(
    make_world: Make, own: list[str], expected: list[str]
) -> None:
    world = make_world()
    world.datasets = {"tiny": ("i:1",)}
    world.run["spec"] |= {"images": {"pullSecrets": ["hub"]}, "sandboxes": {"template": {"imagePullSecrets": own}}}
    world.settle()
    assert world.objects[ROLLOUT_POOLS, "demo"]["spec"]["template"]["imagePullSecrets"] == expected
