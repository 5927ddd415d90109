"""Pinned requirements: there for every image and target that names them, whole, and of no particular registry."""

import re
import tomllib
from pathlib import Path

import pytest

from sweyard_cluster.images import IMAGES

CHECKOUT = Path(__file__).parents[2]
REQUIREMENTS = CHECKOUT / "requirements"
MAKEFILE = (CHECKOUT / "Makefile").read_text()
EXTRAS = {
    "dev": ("dev", "cpu"),
    "cli": ("cli",),
    "docs": ("docs",),
    "operator": ("operator",),
    "cache-agent": ("cache-agent",),
    "trainer-cpu": ("cpu", "wandb"),
    "trainer-gpu": ("gpu", "wandb"),
}
"""What each file pins."""
PIN = re.compile(r"^([a-z0-9.-]+)==\S+( ; .+)?$")


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def files_named_by_images() -> set[str]:
    named = set()
    for recipe in IMAGES.values():
        text = (CHECKOUT / "images" / recipe.folder / "Dockerfile").read_text()
        for argument, value in recipe.arguments.items():
            text = text.replace(f"${{{argument}}}", value)
        copied = re.findall(r"^COPY .*?requirements/(\S+)\.txt", text, re.MULTILINE)
        named.update(copied)
    return named


def direct_dependencies(extra: str) -> set[str]:
    """Names that an extra asks for, those of the extras of ours that it names included."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    names = set()
    for requirement in project["optional-dependencies"][extra]:
        if ours := re.match(r"sweyard\[(.*)\]", requirement):
            names.update(*(direct_dependencies(other) for other in ours[1].split(",")))
        else:
            names.add(normalized(re.split(r"[^\w.-]", requirement)[0]))
    return names


def pinned(file: str) -> set[str]:
    lines = (REQUIREMENTS / f"{file}.txt").read_text().splitlines()
    return {found[1] for line in lines if (found := PIN.match(line))}


def test_every_file_that_is_named_is_there_and_is_made_again_by_make() -> None:
    made = set(re.findall(r"-o requirements/(\S+)\.txt", MAKEFILE))
    assert made == EXTRAS.keys()
    assert files_named_by_images() == made - {"dev", "docs"}
    named = {*(f"{name}.txt" for name in made), *re.findall(r"requirements/([\w-]+\.txt)", MAKEFILE)}
    assert named == {path.name for path in REQUIREMENTS.iterdir()}


@pytest.mark.parametrize("file", EXTRAS)
def test_pins_are_exact_and_name_no_registry(file: str) -> None:
    lines = (REQUIREMENTS / f"{file}.txt").read_text().splitlines()
    assert [line for line in lines if not line.lstrip().startswith("#") and not PIN.match(line)] == []


@pytest.mark.parametrize("path", sorted(REQUIREMENTS.iterdir()), ids=lambda path: path.name)
def test_no_file_holds_an_address(path: Path) -> None:
    assert re.findall(r".*(?:://|--(?:extra-)?index|--find-links).*", path.read_text()) == []


@pytest.mark.parametrize("file", EXTRAS)
def test_a_file_pins_all_that_its_extras_ask_for(file: str) -> None:
    wanted = set().union(*(direct_dependencies(extra) for extra in EXTRAS[file]))
    assert wanted - pinned(file) == set()
