"""Blocks of the documentation that need a registry: each is run, with a real one in place of `registry.example`.

The trainer's image, which takes gigabytes, is built by tests of its own; here its base stands for it.
"""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tests.cluster.a_registry import serving
from tests.sandbox.tasks.small_package import unittest_suite, write_repository
from tests.shell_blocks import DOCS, REGISTRY, Block, blocks

from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.scratch_image import push, scratch_image
from sweyard_sandbox.tasks.make import Options, Quotas
from sweyard_sandbox.tasks.making import Making, run

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(1_800)]

CHECKOUT = DOCS.parent
EXAMPLE = "registry.example"
CACHE_FILE = "examples/pool/imagecache.yaml"
PUBLIC = "public"
EXAMPLE_TASK = "task-cachetools:0123456789ab"
TRAINER, TRAINER_S_BASE = "trainer-gpu", "base"
MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
Play = Callable[[Block], list[str]]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("registry") / "own") as address:
        yield address


@pytest.fixture
def cache_file(registry: str, tmp_path: Path) -> Path:
    """The example's, with images of this registry in place of public ones."""
    document = yaml.safe_load((CHECKOUT / CACHE_FILE).read_text())
    document["spec"]["images"] = [f"{registry}/{PUBLIC}/{image}" for image in document["spec"]["images"]]
    (tmp_path / "entry").touch()
    for image in document["spec"]["images"]:
        name, _, tag = image.removeprefix(f"{registry}/").partition(":")
        push(scratch_image({"/entry": tmp_path / "entry"}, ["/entry"]), registry, name, tag)
    file = tmp_path / "imagecache.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.fixture
def play(registry: str, cluster_tool: Tool, cache_file: Path, tmp_path: Path) -> Play:
    """Run a block's commands as a shell does; the lines that they print."""
    replacements = {
        f"--registry {EXAMPLE}": f"--registry {registry} --plain-http",
        f"--to {EXAMPLE}:5000": f"--insecure --insecure-registry {registry} --to {registry}",
        CACHE_FILE: str(cache_file),
        TRAINER: TRAINER_S_BASE,
    }
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "SWEYARD_CACHE": str(cluster_tool.cache.root),
    }

    def play(block: Block) -> list[str]:
        told: list[str] = []
        for line in block.text.splitlines():
            for shown, own in replacements.items():
                line = line.replace(shown, own)
            if EXAMPLE_TASK in line:
                line = line.replace(f"localhost/sweyard/{EXAMPLE_TASK}", told[-1].split()[1])
            done = subprocess.run(["bash", "-c", line], cwd=CHECKOUT, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{block.place}: {line}\n{done.stderr}"
            told += done.stdout.splitlines()
        return told

    return play


def has(registry: str, image: str) -> bool:
    """Of a name without its host."""
    name, _, tag = image.partition(":")
    asked = urllib.request.Request(f"http://{registry}/v2/{name}/manifests/{tag}", headers={"Accept": MANIFESTS})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return False


def block_of(page: str) -> Block:
    [block] = [block for block in blocks(REGISTRY) if block.place.startswith(page)]
    return block


def test_every_block_that_needs_a_registry_is_run_here() -> None:
    assert {block.place.partition(":")[0] for block in blocks(REGISTRY)} == {
        "gpu-run.md",
        "operations.md",
        "own-repository.md",
    }


def test_the_chart_is_told_of_images_where_they_were_pushed(play: Play, registry: str) -> None:
    text = (DOCS / "gpu-run.md").read_text()
    [values] = re.findall(r"^```yaml\n(images:.*?)^```", text, re.MULTILINE | re.DOTALL)
    images = yaml.safe_load(values.replace(TRAINER, TRAINER_S_BASE))["images"]
    host, _, folder = images.pop("registry").partition("/")
    tag = images.pop("tag")
    play(block_of("gpu-run.md"))
    assert host == EXAMPLE
    assert {image["repository"] for image in images.values()} == {"operator", "cache-agent", "cli", TRAINER_S_BASE}
    for image in images.values():
        assert has(registry, f"{folder}/{image['repository']}:{tag}"), image


def test_images_of_tasks_are_pushed_by_the_names_that_pods_are_told(play: Play, registry: str, tmp_path: Path) -> None:
    repository = write_repository(tmp_path / "gauge", "gauge", unittest_suite("gauge"))
    options = Options(quotas=Quotas(train=1, heldout=1))
    made = run(Making(name="mine", repositories=[repository], cache=tmp_path / ".cache" / "sweyard", options=options))
    assert made == tmp_path / ".cache" / "sweyard" / "datasets" / "mine"
    built, pushed = play(block_of("own-repository.md"))
    name, image = built.split()
    assert name == "gauge"
    [line] = re.findall(r"^echo '(.*)' > images.json", (DOCS / "own-repository.md").read_text(), re.MULTILINE)
    [told] = json.loads(line).values()
    in_pods = told.replace(f"{EXAMPLE}/sweyard/{EXAMPLE_TASK}", f"{registry}/{image.removeprefix('localhost/')}")
    assert pushed.partition("@")[0] == in_pods
    assert has(registry, in_pods.removeprefix(f"{registry}/"))


def test_a_mirror_holds_all_images_and_says_how_runs_find_them(
    play: Play, registry: str, cache_file: Path, tmp_path: Path
) -> None:
    told = play(block_of("operations.md"))
    images = [image.removeprefix(f"{registry}/") for image in yaml.safe_load(cache_file.read_text())["spec"]["images"]]
    assert all(has(registry, f"tasks/{image}") for image in images)
    mirrors = yaml.safe_load("\n".join(told[told.index("mirrors:") :]))
    assert list(mirrors) == ["mirrors"]
    assert f"{registry}/tasks" in str(mirrors)
