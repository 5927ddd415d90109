"""One cache for the command line, `make` and the cluster tool, wherever it is asked for."""

import os
import subprocess
from pathlib import Path

import pytest

from sweyard_api.cache_root import cache_root, dataset_directories
from sweyard_cluster.paths import cache_root as root_of_clusters

CHECKOUT = Path(__file__).parents[2]
TELL = "tell: ; @echo $(CACHE) $$SWEYARD_CACHE $$UV_CACHE_DIR"
PLACES = [
    ({}, "/home/me/.cache/sweyard"),
    ({"XDG_CACHE_HOME": "/cache"}, "/cache/sweyard"),
    ({"XDG_CACHE_HOME": "/cache", "SWEYARD_CACHE": "/big"}, "/big"),
]


@pytest.mark.parametrize(("variables", "root"), PLACES, ids=["home", "xdg", "explicit"])
def test_all_agree_on_the_place(variables: dict[str, str], root: str) -> None:
    environment = {"HOME": "/home/me", **variables}
    assert cache_root(environment) == root_of_clusters(environment) == Path(root)
    assert dataset_directories(environment) == (Path("/datasets"), Path(root, "datasets"))
    assert told_by_make(environment) == [root, root, f"{root}/uv-cache"]


def test_a_cache_given_to_make_reaches_what_it_runs() -> None:
    told = told_by_make({"HOME": "/home/me", "SWEYARD_CACHE": "/big"}, "CACHE=/other")
    assert told == ["/other", "/other", "/other/uv-cache"]


def told_by_make(environment: dict[str, str], *arguments: str) -> list[str]:
    """CACHE of the Makefile, and what commands of its recipes are told."""
    command = ["make", "--silent", "--eval", TELL, "tell", *arguments]
    variables = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(
        command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=True
    ).stdout.split()
