"""Images of a data set's repositories: one for each `images/<repository>/Dockerfile` of its folder.

Their tags are digests of what they are built from, so a node never takes an older image of the same name for the new.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from .errors import ClusterError
from .image_builders import Build, Builder
from .images import PREFIX, build_images, image_tag
from .paths import Cache
from .terminal import Progress

BASE = "base"


def build_task_images(
    dataset: Path, checkout: Path, cache: Cache, builder: Builder, progress: Progress
) -> dict[str, str]:
    """Image by repository; those that exist are not built again. Raises ClusterError for a folder without images."""
    recipes = sorted(dataset.glob("images/*/Dockerfile"))
    if not recipes:
        raise ClusterError(f"{dataset} has no images/<repository>/Dockerfile; `sweyard tasks make` writes them")
    build_images([BASE], checkout, cache, builder, progress)
    return {recipe.parent.name: _build(recipe, dataset, builder, progress) for recipe in recipes}


def _build(recipe: Path, dataset: Path, builder: Builder, progress: Progress) -> str:
    repository = recipe.parent.name
    tag = f"{PREFIX}/task-{repository}:{content_digest(recipe, dataset / 'trees' / repository)}"
    if builder.size_bytes(tag) is None:
        with progress.step(f"image of {repository}"):
            builder.build(Build(tag, recipe, dataset, {"BASE_IMAGE": image_tag(BASE)}), progress)
    return tag


def content_digest(recipe: Path, tree: Path) -> str:
    """Twelve hexadecimal digits that change with the recipe and with any name, mode or content of the tree."""
    digest = hashlib.sha256(recipe.read_bytes())
    for path in _files(tree):
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        header = f"{path.relative_to(tree)}\0{path.lstat().st_mode:o}\0{len(content)}\0"
        digest.update(header.encode() + content)
    return digest.hexdigest()[:12]


def _files(tree: Path) -> Iterator[Path]:
    """Bytecode holds time stamps and says nothing of its own."""
    paths = (path for path in tree.rglob("*") if "__pycache__" not in path.parts)
    return iter(sorted(path for path in paths if path.is_symlink() or path.is_file()))
