"""What an image has installed is all that its programs import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("crds", "operator", "sandbox", "trainer", "cli")
IMPORT_WITH = r"""
import importlib, pkgutil, re, sys, tomllib
from importlib.metadata import packages_distributions

def plain(distribution):
    return re.sub("[-_.]+", "-", distribution).lower()

with open("pyproject.toml", "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
named = {plain(re.match(r"[\w.-]+", line)[0]) for name in extras if name != "dev" for line in extras[name]}
with open(f"requirements/{sys.argv[1]}.txt") as pins:
    installed = {plain(line.partition("==")[0].partition("[")[0]) for line in pins if re.match("[a-z].*==", line)}
assert installed, "no pins"
missing = {
    package for package, distributions in packages_distributions().items()
    if (found := set(map(plain, distributions))) & named and not found & installed
}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
        if not found.name.endswith("__main__") and ".testing" not in found.name:
            importlib.import_module(found.name)
"""
"""Imports packages of ours, whole, as if of all that ours need nothing but the pins of a file were installed."""


@pytest.mark.parametrize(
    ("pins", "packages"),
    [
        ("cli", ["sweyard_cli"]),
        ("operator", ["sweyard_operator.__main__"]),
        ("cache-agent", ["sweyard_operator.cache_agent"]),
        ("trainer-cpu", ["sweyard_trainer", "sweyard_sandbox.agents", "sweyard_sandbox.grading"]),
    ],
)
def test_an_image_has_what_its_programs_import(pins: str, packages: list[str]) -> None:
    path = os.pathsep.join(str(CHECKOUT / folder) for folder in FOLDERS)
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_WITH, pins, *packages],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
