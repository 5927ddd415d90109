"""Programs that a cluster is built of: pinned, built again when what they are built from changes, and checked."""

import sys
from pathlib import Path

import pytest

from sweyard_cluster.binaries import check_version, content_key
from sweyard_cluster.errors import ClusterError
from sweyard_cluster.recipes import GROUPS, RECIPES, pinned_version, recipes_for


def test_content_key_depends_on_content_names_and_flags() -> None:
    keys = {
        content_key([("go.mod", b"a"), ("go.sum", b"b")], "-s"),
        content_key([("go.mod", b"ab"), ("go.sum", b"")], "-s"),
        content_key([("go.sum", b"a"), ("go.mod", b"b")], "-s"),
        content_key([("go.mod", b"a"), ("go.sum", b"b")], "-w"),
    }
    assert len(keys) == 4
    assert content_key([("go.mod", b"a")], "") == content_key([("go.mod", b"a")], "")


@pytest.mark.parametrize("program", [program for group in GROUPS.values() for program in group])
def test_every_program_has_one_recipe_with_a_pinned_version(program: str) -> None:
    ((recipe, programs),) = recipes_for([program])
    assert programs == [program]
    assert recipe.version()[0].isdigit()


def test_kubernetes_staging_modules_are_of_the_same_release() -> None:
    recipe = next(recipe for recipe in RECIPES if recipe.pins == "k8s.io/kubernetes")
    minor = recipe.version().removeprefix("1.")
    replaced = [line for line in (recipe.directory / "go.mod").read_text().splitlines() if " => " in line]
    assert replaced
    assert all(line.endswith(f" v0.{minor}") for line in replaced)


def test_version_is_read_from_either_form_of_go_mod() -> None:
    assert pinned_version("require example.test/tool v1.2.3\n", "example.test/tool") == "1.2.3"
    assert pinned_version("require (\n\texample.test/tool v1.2.3 // indirect\n)\n", "example.test/tool") == "1.2.3"
    with pytest.raises(ClusterError, match=r"does not require example\.test/tool"):
        pinned_version("require example.test/tools v1.2.3\n", "example.test/tool")


def test_program_of_another_version_is_refused() -> None:
    python = Path(sys.executable)
    check_version(python, ["--version"], ".".join(map(str, sys.version_info[:3])))
    with pytest.raises(ClusterError, match=r"should be version 1\.0\.0 but says: Python 3"):
        check_version(python, ["--version"], "1.0.0")
