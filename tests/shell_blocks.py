"""The blocks of commands in docs/, and how a test goes through one."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
RUNS = ""
CLUSTER = "on a cluster"
HELM = "with helm"
REGISTRY = "with a registry"
MINUTES = "takes minutes"
KEEPS_RUNNING = "keeps running"
LONG = (MINUTES, "takes minutes, root", KEEPS_RUNNING, "on GPUs")
"""What a block may say that it needs."""

_FENCE = re.compile(r"^```(?:sh|console|bash)(?: title=\"([^\"]*)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_WITHIN = re.compile(r"\$\(sweyard ([^|)]*)\|([^)]*)\)")
"""What one of our commands says, through another program, as an argument of the next."""
_VARIABLE = re.compile(r"[A-Z_]+=\S*")
_MOMENT_SECONDS = 60


@dataclass(frozen=True)
class Block:
    """Commands that are shown together."""

    place: str
    needs: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """In words, variables that are set for one command alone taken off."""
        lines = (shlex.split(_WITHIN.sub("THAT", line), comments=True) for line in self.text.splitlines())
        return [_without_variables(words) for words in lines if words]


def blocks(*needs: str) -> list[Block]:
    """In docs/, of these needs; of all where none is given."""
    found = [
        Block(f"{page.relative_to(DOCS)}:{number}", block[1] or RUNS, block[2])
        for page in sorted(DOCS.rglob("*.md"))
        for number, block in enumerate(_FENCE.finditer(page.read_text(encoding="utf-8")), 1)
    ]
    return [block for block in found if not needs or block.needs in needs]


def play(block: Block, sweyard: Callable[..., Any], directory: Path, environment: Mapping[str, str]) -> None:
    """Run it line by line: ours in this process, which spares the start of an interpreter each, others by a shell.

    `environment` holds what they find beyond this process's own.
    """
    for line, words in zip(filter(None, block.text.splitlines()), block.commands, strict=True):
        if found := _WITHIN.search(line):
            said = sweyard(*shlex.split(found[1])).stdout
            said = subprocess.run(["bash", "-c", found[2]], input=said, capture_output=True, text=True).stdout
            words = shlex.split(line.replace(found[0], said.strip()))
        if words[0] == "sweyard":
            told = sweyard(*(os.path.expanduser(word) for word in words[1:]))
            accepted = (0, 1) if words[1] == "doctor" else (0,)  # it found something, which is what it is for
            assert told.exit_code in accepted, f"{block.place}: {line}\n{told.output}"
        else:
            done = subprocess.run(
                ["bash", "-c", line], cwd=directory, env={**os.environ, **environment},
                capture_output=True, text=True, timeout=_MOMENT_SECONDS,
            )  # fmt: skip
            assert done.returncode == 0, f"{block.place}: {line}\n{done.stderr}"


def _without_variables(words: list[str]) -> list[str]:
    while _VARIABLE.fullmatch(words[0]):
        words = words[1:]
    return words
