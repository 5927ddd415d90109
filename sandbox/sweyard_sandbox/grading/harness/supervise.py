"""Main program of the harness: apply patches, put canaries in, run the tests, print the result behind the nonce.

Arguments: path of the specification (JSON; removed once read) and of the file with the nonce (read and removed after
the tests' process has been forked, hence unknown to it). Both lie in a folder of their own, which is removed.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .forked import Selection, run_forked, separate_user
from .privacy import hide_from_children

SURPLUS = 100
"""Records beyond one a test that are told: work may forge hundreds of thousands."""


def main(arguments: list[str]) -> None:
    """Print the `started` token, grade, print the result behind the nonce.

    Run as `python3 -I harness.pyz SPECIFICATION NONCE` with the repository as cwd.
    """
    specification_path, nonce_path = (Path(argument) for argument in arguments)
    hide_from_children()
    specification = json.loads(specification_path.read_text())
    print(specification["started"], flush=True)
    with nonce_path.open() as nonce_file:
        shutil.rmtree(specification_path.parent)
        report = grade_here(specification, forget_nonce=nonce_file.close)
        print(f"\n{nonce_file.read()} {json.dumps(report)}", flush=True)


def grade_here(specification: dict[str, Any], forget_nonce: Callable[[], None]) -> dict[str, Any]:
    """Do what `specification` says in the cwd; `forget_nonce` is called in the tests' process before any test."""
    for name, known in (("setup_patch", None), ("patch", specification["paths"])):
        failure = apply_patch(specification[name], known)
        if failure:
            return {"failed": name, "message": failure}
    for path, text in specification["files"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    for path, text in specification["endings"].items():
        if Path(path).is_file():
            with Path(path).open("a") as file:
                file.write(text)
    selection = Selection(specification["runner"], tuple(specification["tests"]), tuple(specification["python_path"]))
    timeout_seconds = specification["timeout_seconds"]
    user = separate_user(Path.cwd())
    run = run_forked(selection, timeout_seconds=timeout_seconds, user=user, setup=forget_nonce)
    del run.records[len(selection.tests) + SURPLUS :]
    del run.replaced[SURPLUS:]
    return run.as_dict()


def apply_patch(patch: str, known_paths: Sequence[str] | None = None) -> str:
    """Apply a unified diff to the cwd; returns what is wrong if it does not apply. An empty patch is fine.

    Where `known_paths` are given, one that touches others by git's reading of it is refused: it was looked through by
    them.
    """
    if not patch.strip():
        return ""
    if not Path(".git").exists():
        # Inside another repository `git apply` silently skips what it takes to be outside.
        subprocess.run(["git", "init", "-q", "--template="], check=True)
    command = ["git", "-c", "core.autocrlf=false", "-c", "safe.directory=*", "apply", "--whitespace=nowarn"]
    command += ["--apply", "--numstat", "-z", "-"]
    done = subprocess.run(command, input=patch.encode("utf-8", "surrogateescape"), capture_output=True, check=False)
    if done.returncode:
        return done.stderr.decode("utf-8", "replace") or f"exit code {done.returncode}"
    hidden = touched_paths(done.stdout) - set(known_paths or ()) if known_paths is not None else set()
    return f"it touches {min(hidden)!r} under another name" if hidden else ""


def touched_paths(numstat: bytes) -> set[str]:
    """Paths in what `git apply --numstat -z` printed."""
    lines = numstat.decode("utf-8", "surrogateescape").split("\0")
    return {line.split("\t", 2)[2] for line in lines if line}
