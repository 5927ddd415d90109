"""Blocks of the documentation that need nothing but a finished run: each is run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import ATTEMPTS
from tests.cli.test_on_api_server import write_dataset
from tests.shell_blocks import DOCS, RUNS, Block, blocks, play


@pytest.mark.parametrize("block", blocks(RUNS), ids=lambda block: block.place)
def test_a_block_without_a_mark_runs(
    block: Block,
    sweyard: Callable[..., Any],
    make_run: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "runs").mkdir()
    make_run(attempts=ATTEMPTS, summary={}).rename(tmp_path / "runs" / "tiny")
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    (tmp_path / "datasets").mkdir()
    for name in ("tiny", "mine"):
        write_dataset(tmp_path / "datasets" / name, 3, json.dumps)
    monkeypatch.setenv("SWEYARD_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    play(block, sweyard, tmp_path, {})
