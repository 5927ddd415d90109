"""Blocks of the documentation that train, or run until they are ended: each is run, on a small package with few steps.

Those of `make demo` are the demo's own tests' to run; what needs GPUs or the chart's page is run elsewhere or nowhere.
"""

import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sandbox.tasks.small_package import unittest_suite, write_repository
from tests.shell_blocks import DOCS, KEEPS_RUNNING, MINUTES, Block, blocks

CHECKOUT = DOCS.parent
FEW_STEPS: Mapping[str, Any] = {
    "steps": 1,
    "model": {"scratch": {"layers": 2, "hiddenSize": 64, "vocabularySize": 400}},
    "warmup": {"steps": 2, "batchSize": 4},
    "rollout": {"groupsPerStep": 1, "groupSize": 2, "maxTokensPerTurn": 16},
    "evaluation": {"attempts": 1},
}
"""In place of the preset's own."""
WITH_MAKE = [block for block in blocks(MINUTES) if block.text.startswith("make ")]
CHAIN = ("own-repository.md", "first-run.md", "own-code.md", "gpu-run.md")
"""Pages in the order in which one comes from a repository to an export."""


def of_page(page: str) -> list[Block]:
    return [block for block in blocks(MINUTES) if block.place.startswith(f"{page}:") and block not in WITH_MAKE]


class Laptop:
    """A directory like a checkout, and a home with nothing in it but a repository."""

    def __init__(self, root: Path) -> None:
        self.home, self.checkout = root / "home", root / "checkout"
        self.environment = {
            **os.environ,
            "HOME": str(self.home),
            "SWEYARD_CACHE": str(self.cache),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }
        write_repository(self.home / "src" / "mine", "mine", unittest_suite("mine"))
        for folder in ("tiny", "custom"):
            self._write_example(Path("examples", folder))
        [text] = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "own-repository.md").read_text(), re.MULTILINE | re.DOTALL)
        self._write_run(Path("mine.yaml"), text)

    @property
    def cache(self) -> Path:
        return self.home / ".cache" / "sweyard"

    def play(self, block: Block) -> str:
        """What its commands print, all of which must succeed."""
        done = subprocess.run(
            ["bash", "-ec", block.text], cwd=self.checkout, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block.place}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def _write_example(self, folder: Path) -> None:
        for path in (CHECKOUT / folder).glob("*.py"):
            (self.checkout / folder).mkdir(parents=True, exist_ok=True)
            (self.checkout / folder / path.name).write_text(path.read_text())
        self._write_run(folder / "trainingrun.yaml", (CHECKOUT / folder / "trainingrun.yaml").read_text())

    def _write_run(self, path: Path, text: str) -> None:
        document = yaml.safe_load(text)
        document["spec"] |= FEW_STEPS
        document["spec"]["tasks"].pop("eval", None)
        document["spec"]["tasks"]["eval"] = [
            {"dataset": document["spec"]["tasks"]["train"]["dataset"], "split": "heldout"}
        ]
        (self.checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (self.checkout / path).write_text(yaml.safe_dump(document))


@pytest.mark.timeout(1_800)
def test_from_a_repository_to_an_export(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path)
    make, train = of_page("own-repository.md")
    told = laptop.play(make)
    assert re.search(r"^(\d+) of \1 tasks may be used$", told, re.MULTILINE), told
    assert re.search(r"^next    sweyard tasks check mine ", told, re.MULTILINE), told
    # The names of the pages: what the demo makes, and what it leaves.
    (laptop.cache / "datasets" / "tiny").symlink_to(laptop.cache / "datasets" / "mine")
    laptop.play(train)
    runs = laptop.checkout / "runs"
    (runs / "mine").rename(runs / "tiny")
    for page in CHAIN[1:]:
        for block in of_page(page):
            laptop.play(block)
    assert (laptop.checkout / "tiny-best" / "config.json").exists()
    assert {path.name for path in runs.iterdir()} == {"tiny", "mine", "custom"}


def test_no_block_is_left_out() -> None:
    assert {block.place.partition(":")[0] for block in blocks(MINUTES) if block not in WITH_MAKE} == set(CHAIN)


@pytest.mark.parametrize(
    "block",
    [block for block in blocks(KEEPS_RUNNING) if block.text.startswith("sweyard ")],
    ids=lambda block: block.place,
)
def test_a_page_that_keeps_running_shows_the_runs_at_the_address_it_prints(block: Block, tmp_path: Path) -> None:
    (tmp_path / "runs" / "tiny" / "metrics").mkdir(parents=True)
    (tmp_path / "runs" / "tiny" / "progress.json").write_text("{}")
    [command] = block.text.splitlines()
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    line = f"exec {command} --port 0"  # the page's own may be somebody else's here
    with subprocess.Popen(
        ["bash", "-c", line], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as page:
        assert page.stdout is not None
        try:
            [address] = re.findall(r"http://\S+", page.stdout.readline())
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            browser.open(address, timeout=60).close()  # its token becomes a cookie
            with browser.open(urllib.parse.urljoin(address, "/api/runs"), timeout=60) as answer:
                assert [run["name"] for run in json.load(answer)] == ["tiny"]
        finally:
            page.terminate()
