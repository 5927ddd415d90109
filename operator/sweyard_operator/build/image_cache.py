"""The run's own cache of task images."""

from sweyard_api.constants import API_VERSION
from sweyard_operator.build.run_context import RunContext, owned_metadata
from sweyard_operator.resources import Manifest


def cache_name(run: RunContext) -> str | None:
    """Name of the ImageCache that the run waits for; None where no image is named, or no sandbox needs one. One without
    copies is ready at once: it keeps what sandboxes bring, and evicts."""
    images = run.config.images
    if not run.makes_attempts:
        return None
    if images.cache_ref is not None:
        return images.cache_ref
    has_images = bool(images.images) or images.images_from is not None
    return run.name if has_images else None


def build_image_cache(run: RunContext) -> Manifest | None:
    """ImageCache named like the run; None for a shared one, or none."""
    if cache_name(run) is None or run.config.images.cache_ref is not None:
        return None
    spec = run.config.images.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"cache_ref", "from_tasks"}
    )
    return {"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": owned_metadata(run, run.name), "spec": spec}
