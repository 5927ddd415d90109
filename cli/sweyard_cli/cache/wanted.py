"""Which images a TrainingRun or an ImageCache asks for, in order of need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweyard_api.image_cache import ImageCacheSpec
from sweyard_api.program import program
from sweyard_api.resolve import resolve
from sweyard_api.workload import TaskSource
from sweyard_cli.errors import UserError

ListImages = Callable[[str], Sequence[str] | None]
"""Images that a ConfigMap of this name lists; None if there is none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be cached, and how."""

    name: str
    spec: ImageCacheSpec
    images: tuple[str, ...]


def find_wanted(document: Mapping[str, Any], list_images: ListImages, directories: Sequence[Path]) -> Wanted:
    """Pure but for data sets of this machine, which lie in `directories`.

    Raises UserError for what cannot be found, or if nothing is cached.
    """
    name = str(document["metadata"]["name"])
    if document["kind"] == "ImageCache":
        spec = ImageCacheSpec.model_validate(document["spec"])
        return Wanted(name, spec, _each_once(spec.images, _listed(spec, list_images)))
    config = resolve(document["spec"])
    images = config.images
    if images.cache_ref is not None:
        raise UserError(
            f"the run uses the ImageCache {images.cache_ref}: plan that one, or see `{program()} cache show`"
        )
    spec = ImageCacheSpec.model_validate(images.model_dump(exclude={"cache_ref", "from_tasks"}))
    listed, of_tasks = _listed(spec, list_images), list[str]()
    if images.from_tasks:
        of_tasks = [image for source in config.tasks.sources for image in _of(source, list_images, directories)]
    found = _each_once(spec.images, listed, of_tasks)
    if not found:
        raise UserError(f"{name}: its tasks name no container image, so there is nothing to cache")
    return Wanted(name, spec, found)


def _listed(spec: ImageCacheSpec, list_images: ListImages) -> Sequence[str]:
    if spec.images_from is None:
        return ()
    found = list_images(spec.images_from)
    if found is None:
        raise UserError(f"ConfigMap {spec.images_from} named by imagesFrom cannot be read; is this the right cluster?")
    return found


def _of(source: TaskSource, list_images: ListImages, directories: Sequence[Path]) -> Sequence[str]:
    """Of the data set on this machine, else of the cluster's ConfigMap."""
    from sweyard_sandbox.errors import SweyardError
    from sweyard_sandbox.tasks.load import load_tasks

    try:
        tasks = load_tasks(source, directories)
    except SweyardError as error:
        found = _of_cluster(source.dataset, list_images, because=str(error))
        if found is None:
            raise UserError(str(error)) from error
        return found
    # Tasks of directories need no image.
    return [task.image for task in tasks if not task.is_directory]


def _of_cluster(dataset: str, list_images: ListImages, *, because: str) -> Sequence[str] | None:
    if "/" in dataset:
        return None  # a path, or a data set of the hub: no name of a ConfigMap
    try:
        return list_images(dataset)
    except UserError as error:
        raise UserError(f"{because}; nor can a cluster be asked: {error}") from error


def _each_once(*lists: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(image for images in lists for image in images))
