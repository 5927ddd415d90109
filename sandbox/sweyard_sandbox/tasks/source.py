"""Real Python packages as clean source trees: a source archive from the package index, or a local repository."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from email.parser import HeaderParser
from fnmatch import fnmatchcase
from pathlib import Path

from sweyard_sandbox.errors import SweyardError

LEFTOVERS = ("*.egg-info", "__pycache__", ".git", ".hg", ".venv", ".tox", ".pytest_cache")
"""Folders that tools leave in a tree, wherever they are."""
LEFTOVERS_AT_TOP = ("build", "dist", "venv")
"""The same beside the project's own files; deeper, and where Python can import them, they are sources."""


class SourceError(SweyardError, ValueError):
    """A package cannot be made into tasks; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class Source:
    """A package's source."""

    name: str
    version: str
    licence: str
    """As the package declares it."""
    root: Path
    """The clean tree."""


def fetch_package(requirement: str, cache: Path) -> Source:
    """Download the source archive of `NAME==VERSION` once and unpack it below `cache`.

    Raises SourceError if the index has no source archive of it, or one that cannot be unpacked.
    """
    name, _, version = requirement.partition("==")
    if not version:
        raise SourceError(
            f"package {requirement!r}: name a version, as in {name}==1.0, so that the tasks stay the same"
        )
    tree = cache / "sources" / f"{name}-{version}"
    if not tree.exists():
        archive = _download(requirement, cache, cache / "archives" / f"{name}-{version}")
        _unpack(archive, tree)
    return Source(name, version, _licence(tree), tree)


def copy_repository(repository: Path, cache: Path) -> Source:
    """The tracked and untracked, not ignored, files of a local repository (all files where it is not git's)."""
    if not repository.is_dir():
        raise SourceError(f"repository {repository}: no such directory; name the folder that holds the package")
    name = repository.resolve().name
    tree = cache / "sources" / f"{name}-local"
    shutil.rmtree(tree, ignore_errors=True)
    if (repository / ".git").exists():
        for path in _listed_by_git(repository):
            if (repository / path).is_file():
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(repository / path, tree / path)
    else:
        _copy_all(repository, tree)
    return Source(name, "local", _licence(tree), tree)


def _listed_by_git(repository: Path) -> list[str]:
    command = ["git", "-C", str(repository), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError as error:
        raise SourceError(f"repository {repository} is git's, and there is no git here: install it") from error
    except subprocess.CalledProcessError as error:
        said = " ".join(os.fsdecode(error.stderr).split())
        raise SourceError(f"repository {repository}: git does not list its files: {said}") from error
    return [path for path in os.fsdecode(done.stdout).split("\0") if path]


def _copy_all(repository: Path, tree: Path) -> None:
    if tree.resolve().is_relative_to(repository.resolve()):
        raise SourceError(f"repository {repository} holds the cache, {tree.parent.parent}: move one out of the other")
    try:
        shutil.copytree(repository, tree, ignore=_leftovers_below(repository))
    except shutil.Error as error:  # (from, to, why) of each file
        path, _, reason = error.args[0][0]
        raise SourceError(f"repository {repository}: {path} cannot be copied: {reason}") from error


def _download(requirement: str, cache: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    archives = list(folder.glob("*.tar.gz")) + list(folder.glob("*.zip"))
    if not archives:
        options = ("-q", "--no-cache-dir", "--no-deps", "--no-binary", ":all:", "-d", str(folder))
        command = [*pip_command(cache), "download", *options, requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SourceError(f"package {requirement}: {_why(done.stderr)}")
        archives = list(folder.glob("*.tar.gz")) + list(folder.glob("*.zip"))
    return archives[0]


def _why(said: str) -> str:
    """What pip's many lines come to: where the index does not answer, pip says at the end that there is no package."""
    if broken := re.search(r"connection broken by '(\w+)", said):
        return (
            f"the package index does not answer ({broken[1]}); check the network and HTTPS_PROXY, or name another "
            "index by PIP_INDEX_URL"
        )
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    return f"pip found no usable source archive: {(errors or [said.strip()])[-1][-400:]}"


def pip_command(cache: Path) -> list[str]:
    """A pip that writes nowhere but below `cache`. Raises SourceError."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if uv := shutil.which("uv"):
        kept = ("--cache-dir", str(cache / "uv-cache"))
        return [uv, "run", "-q", *kept, "--no-project", "--with", "pip", "--", "python", "-m", "pip"]
    if pip := shutil.which("pip"):
        return [pip]
    raise SourceError("downloading a package needs pip or uv; install one, or use a local repository instead")


def _unpack(archive: Path, tree: Path) -> None:
    unpacked = tree.with_name(f"{tree.name}.unpacking")
    shutil.rmtree(unpacked, ignore_errors=True)
    try:
        _extract(archive, unpacked)
        (top,) = unpacked.iterdir()
    except _UNUSABLE as error:
        archive.unlink()
        raise SourceError(
            f"{archive} is damaged, or no source archive; it is removed, and the next call fetches it again"
        ) from error
    _remove_leftovers(top)
    top.rename(tree)
    unpacked.rmdir()


def _remove_leftovers(top: Path) -> None:
    for folder, _, files in os.walk(top):
        here = Path(folder)
        if _is_leftover(here, top):
            shutil.rmtree(here)
        elif ".git" in files:  # of a submodule: git would take its folder for a repository
            (here / ".git").unlink()


def _leftovers_below(top: Path) -> Callable[[str, list[str]], list[str]]:
    """For shutil.copytree."""

    def among(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if (path := Path(folder, name)).is_dir() and _is_leftover(path, top)]

    return among


def _is_leftover(folder: Path, top: Path) -> bool:
    if folder.parent == top and folder.name in LEFTOVERS_AT_TOP:
        return not (folder / "__init__.py").exists()
    return any(fnmatchcase(folder.name, pattern) for pattern in LEFTOVERS)


_UNUSABLE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError)


def _extract(archive: Path, folder: Path) -> None:
    if archive.suffix == ".zip":
        zipfile.ZipFile(archive).extractall(folder)
    else:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")


def _licence(tree: Path) -> str:
    if (metadata := tree / "PKG-INFO").exists():
        headers = HeaderParser().parsestr(metadata.read_text(errors="replace"))
        classifiers = [
            line.split("::")[-1].strip() for line in headers.get_all("Classifier", []) if "License ::" in line
        ]
        declared = headers.get("License-Expression") or headers.get("License") or ", ".join(classifiers)
        return re.sub(r"\s+", " ", declared or "not declared")[:80]
    if (project := tree / "pyproject.toml").exists():
        try:
            licence = (
                tomllib.loads(project.read_text(errors="replace")).get("project", {}).get("license", "not declared")
            )
        except tomllib.TOMLDecodeError:
            return "not declared"
        return str(licence.get("text", licence) if isinstance(licence, dict) else licence)[:80]
    return "not declared"
