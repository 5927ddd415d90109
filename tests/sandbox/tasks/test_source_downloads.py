"""Downloading a package writes nowhere but into our cache."""

import importlib.util
import os
from pathlib import Path

import pytest

from sweyard_sandbox.tasks.source import fetch_package

PIP = """#!/bin/sh
echo "$@" >>"{log}"
while [ "$1" != -d ]; do shift; done
mkdir -p "{log}.tree/six-1.0" && echo 'Metadata-Version: 2.1' >"{log}.tree/six-1.0/PKG-INFO"
tar -C "{log}.tree" -czf "$2/six-1.0.tar.gz" six-1.0
"""


def test_neither_uv_nor_pip_keeps_a_copy_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, cache = tmp_path / "bin", tmp_path / "cache"
    programs.mkdir()
    (programs / "uv").write_text(PIP.format(log=tmp_path / "log"))
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    fetch_package("six==1.0", cache)
    (called,) = (tmp_path / "log").read_text().splitlines()
    assert f"--cache-dir {cache}/uv-cache" in called
    assert "download -q --no-cache-dir" in called
