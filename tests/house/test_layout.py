"""Folders that do not stand in Python's way, and packages that load no more than the table of imports says."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
FOLDERS = ("crds", "operator", "sandbox", "trainer", "cli", "cluster")
"""Each holds one package of ours and is on the path."""
PACKAGES = {folder: f"sweyard_{'api' if folder == 'crds' else folder}" for folder in FOLDERS}
HEAVY = {"torch", "ray", "vllm", "transformers"}
FOREIGN = {
    "sweyard_api": {"kubernetes", "kopf", "aiohttp"},
    "sweyard_operator": {"sweyard_sandbox", "sweyard_trainer", "sweyard_cli", "sweyard_cluster"},
    "sweyard_sandbox": {"sweyard_operator", "sweyard_trainer", "sweyard_cli", "sweyard_cluster", "kopf", "kubernetes"},
    "sweyard_cluster": {"sweyard_api", "pydantic", "kubernetes", "aiohttp"},
}
"""What all modules of a package together must not load, beside what is heavy."""
IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*sys.modules, sep="\\n")
"""


def loaded_by(program: str, *arguments: str) -> set[str]:
    """Top-level modules that a new interpreter holds after `program`, which prints all that it has loaded."""
    path = os.pathsep.join(str(CHECKOUT / folder) for folder in FOLDERS)
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_module_lies_in_a_folder_that_is_on_the_path(folder: str) -> None:
    """It would shadow the standard library's: `types.py` breaks Python, `__init__.py` in operator/ hides operator."""
    assert [path.name for path in (CHECKOUT / folder).glob("*.py*")] == []


def test_tests_are_no_package() -> None:
    """With `tests/operator/__init__.py` pytest would put an empty package in the place of the standard operator."""
    assert list((CHECKOUT / "tests").rglob("__init__.py")) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_holds_one_typed_package(folder: str) -> None:
    packages = [path.parent.name for path in (CHECKOUT / folder).glob("*/__init__.py")]
    assert packages == [PACKAGES[folder]]
    assert (CHECKOUT / folder / PACKAGES[folder] / "py.typed").exists()


def test_every_tool_knows_every_package() -> None:
    tool = PROJECT["tool"]
    wheel = tool["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert wheel == [f"{folder}/{package}" for folder, package in PACKAGES.items()]
    assert sorted(tool["importlinter"]["root_packages"]) == sorted(PACKAGES.values())
    for configured in (tool["pytest"]["ini_options"]["pythonpath"], tool["mypy"]["mypy_path"], tool["ruff"]["src"]):
        assert set(FOLDERS) <= set(configured)


@pytest.mark.parametrize("package", FOREIGN)
def test_a_package_loads_nothing_foreign_or_heavy(package: str) -> None:
    loaded = loaded_by(IMPORT_ALL, package)
    assert package in loaded
    assert loaded & (FOREIGN[package] | HEAVY) == set()


def test_the_command_line_is_there_before_what_its_commands_need() -> None:
    lazily = {"kubernetes", "matplotlib", "sweyard_sandbox", "sweyard_trainer", "sweyard_operator", "sweyard_cluster"}
    loaded = loaded_by("import sys, sweyard_cli.main; print(*sys.modules, sep='\\n')")
    assert "sweyard_cli" in loaded
    assert loaded & (lazily | HEAVY) == set()
