"""Downloading a package writes nowhere but into our cache."""

import importlib.util
import os
from pathlib import Path

import pytest

from sweyard_sandbox.tasks.making import Making, sources_of
from sweyard_sandbox.tasks.source import SourceError, fetch_package

PIP = """#!/bin/sh
echo "$@" >>"{log}"
while [ "$1" != -d ]; do shift; done
mkdir -p "{log}.tree/six-1.0" && echo 'Metadata-Version: 2.1' >"{log}.tree/six-1.0/PKG-INFO"
tar -C "{log}.tree" -czf "$2/six-1.0.tar.gz" six-1.0
"""


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def test_neither_uv_nor_pip_keeps_a_copy_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, cache = tmp_path / "bin", tmp_path / "cache"
    program(programs, "uv", PIP.format(log=tmp_path / "log"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    fetch_package("six==1.0", cache)
    (called,) = (tmp_path / "log").read_text().splitlines()
    assert f"--cache-dir {cache}/uv-cache" in called
    assert "download -q --no-cache-dir" in called


NO_NETWORK = """WARNING: Retrying (Retry(total=0)) after connection broken by 'ProxyError('None')': /six/
ERROR: Could not find a version that satisfies the requirement six==1.0 (from versions: none)
ERROR: No matching distribution found for six==1.0
"""
REFUSALS = {
    "no network": (NO_NETWORK, "the package index does not answer (ProxyError); check the network and HTTPS_PROXY"),
    "no such version": (
        NO_NETWORK.partition("\n")[2],
        "pip found no usable source archive: No matching distribution found for six==1.0",
    ),
    "no words of pip": ("disk full\n", "pip found no usable source archive: disk full"),
}


@pytest.mark.parametrize(("said", "told"), REFUSALS.values(), ids=REFUSALS)
def test_why_a_package_cannot_be_had_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, told: str
) -> None:
    program(tmp_path / "bin", "uv", f"#!/bin/sh\ncat >&2 <<'END'\n{said}END\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SourceError) as refused:
        fetch_package("six==1.0", tmp_path / "cache")
    assert str(refused.value).startswith(f"package six==1.0: {told}")
    assert "\n" not in str(refused.value)


def test_each_package_is_told_before_it_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "uv", PIP.format(log=tmp_path / "log"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    told: list[str] = []
    making = Making(name="x", cache=tmp_path / "cache", packages=["six==1.0"], unseen_packages=["none"])
    with pytest.raises(SourceError, match="name a version"):
        sources_of(making, told.append)
    assert told == [f"{name}: fetching its source archive from the package index" for name in ("six==1.0", "none")]
