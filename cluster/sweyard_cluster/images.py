"""The product's images: which there are, what each is built on, and building them in that order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .debian import make_root_archive
from .errors import ClusterError
from .image_builders import Build, Builder
from .locking import exclusive
from .paths import Cache
from .terminal import Progress

PREFIX = "localhost/sweyard"
TAG = "dev"
DEBIAN = "debian"


@dataclass(frozen=True)
class ImageRecipe:
    """An image from `images/<folder>/Dockerfile`, built on another of ours."""

    folder: str
    base: str
    target: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    large: bool = False


IMAGES: Mapping[str, ImageRecipe] = {
    "python": ImageRecipe("base", DEBIAN, target="python"),
    "base": ImageRecipe("base", DEBIAN, target="base"),
    "operator": ImageRecipe("operator", "python"),
    "cache-agent": ImageRecipe("cache-agent", "python"),
    "cli": ImageRecipe("cli", "python", large=True),
    "trainer": ImageRecipe("trainer", "base", arguments={"EXTRA": "cpu"}, large=True),
    "trainer-gpu": ImageRecipe("trainer", "base", arguments={"EXTRA": "gpu"}, large=True),
}


def image_tag(name: str) -> str:
    return f"{PREFIX}/{name}:{TAG}"


def build_order(names: Iterable[str]) -> list[str]:
    """The names with what they are built on before them; raises ClusterError for an unknown one."""
    order: list[str] = []

    def add(name: str) -> None:
        if name not in IMAGES:
            raise ClusterError(f"image {name!r} is not one of {', '.join(IMAGES)}")
        base = IMAGES[name].base
        if base != DEBIAN:
            add(base)
        if name not in order:
            order.append(name)

    for name in names:
        add(name)
    return order


def small_images() -> list[str]:
    """What a demo needs; the others are asked for by name."""
    return [name for name, recipe in IMAGES.items() if not recipe.large]


def build_images(
    names: Sequence[str], checkout: Path, cache: Cache, builder: Builder, progress: Progress
) -> dict[str, int]:
    """Build in order, layers cached by content; the size in bytes of each."""
    if not (checkout / "images").is_dir():
        raise ClusterError(f"{checkout} has no folder images/; run this from a checkout of sweyard")
    sizes = {}
    for name in build_order(names):
        recipe = IMAGES[name]
        build = Build(
            image_tag(name),
            checkout / "images" / recipe.folder / "Dockerfile",
            checkout,
            {**recipe.arguments, **base_argument(recipe, cache, builder, progress)},
            recipe.target,
        )
        with progress.step(f"image {name}"):
            builder.build(build, progress)
        sizes[name] = builder.size_bytes(build.tag) or 0
    return sizes


def base_argument(recipe: ImageRecipe, cache: Cache, builder: Builder, progress: Progress) -> dict[str, str]:
    if recipe.base != DEBIAN:
        return {"BASE_IMAGE": image_tag(recipe.base)}
    if builder.has_registry:
        return {}
    provide_debian(cache, builder, progress)
    return {"BASE_IMAGE": image_tag(DEBIAN)}


def provide_debian(cache: Cache, builder: Builder, progress: Progress) -> None:
    """An image of Debian by debootstrap, made once, whoever else wants it now."""
    context = cache.root / "debian"
    with exclusive(context / ".lock", lambda: progress.await_turn("who makes the Debian base system")):
        if builder.size_bytes(image_tag(DEBIAN)):
            return
        make_root_archive(context / "root.tar", progress)
        dockerfile = context / "Dockerfile"
        dockerfile.write_text('FROM scratch\nADD root.tar /\nCMD ["/bin/bash"]\n')
        with progress.step("image debian"):
            builder.build(Build(image_tag(DEBIAN), dockerfile, context, {}), progress)
