"""`images.fromTasks`: the run's ImageCache holds what its data sets' ConfigMaps list."""

from collections.abc import Mapping

from sweyard_api.problem import InvalidSpecError, Problem
from sweyard_api.training_run import TrainingRunSpec

MAX_INLINE_IMAGES = 1_000
"""As spec.images of an ImageCache allows."""


def with_task_images(config: TrainingRunSpec, datasets: Mapping[str, tuple[str, ...] | None]) -> TrainingRunSpec:
    """The config with the images of its tasks: by reference where one data set has all, else listed.

    Raises InvalidSpecError if several data sets together list more than can be written inline.
    """
    images = config.images
    listed = {name: found for name, found in datasets.items() if found}
    if not images.from_tasks or images.cache_ref is not None or not listed:
        return config
    if len(listed) == 1 and not images.images and images.images_from is None:
        return _with(config, images_from=next(iter(listed)))
    union = list(dict.fromkeys([*images.images, *(image for found in listed.values() for image in found)]))
    if len(union) > MAX_INLINE_IMAGES:
        message = (
            f"the tasks of {', '.join(listed)} name {len(union)} images, more than the {MAX_INLINE_IMAGES} that are "
            f"listed in one ImageCache: make an ImageCache from a ConfigMap and name it in images.cacheRef"
        )
        raise InvalidSpecError([Problem("images", message, str(len(union)))])
    return _with(config, images=union)


def _with(config: TrainingRunSpec, **values: object) -> TrainingRunSpec:
    return config.model_copy(update={"images": config.images.model_copy(update=values)})
