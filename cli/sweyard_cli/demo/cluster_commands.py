"""Running the commands that a user would type, and showing them."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from sweyard_api.cache_root import cache_root
from sweyard_cli.errors import UserError

_SHOWN_OUTPUT_CHARACTERS = 2_000


@dataclass(frozen=True)
class Commands:
    """Runs programs with one environment; each is shown before it runs."""

    console: Console
    environment: Mapping[str, str]

    def run(self, *command: str, input_text: str | None = None, shown: bool = True) -> str:
        """Standard output. Its input is `input_text` and never the terminal, so that nothing asks there.

        Raises UserError with the end of what the program said if it fails.
        """
        if shown:
            self.console.print(f"[dim]$ {shlex.join(shorten(command))}[/dim]", highlight=False)
        done = subprocess.run(
            command, input=input_text or "", capture_output=True, text=True, env=dict(self.environment), check=False
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip())[-_SHOWN_OUTPUT_CHARACTERS:]
            raise UserError(f"{shlex.join(shorten(command))} failed: {said}", exit_code=1)
        return done.stdout

    def cluster_tool(self, *arguments: str) -> str:
        """`python -m sweyard_cluster`, whose progress goes through to the terminal. Raises UserError."""
        command = [sys.executable, "-m", "sweyard_cluster", *arguments]
        self.console.print(f"[dim]$ {shlex.join(shorten(command))}[/dim]", highlight=False)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=dict(self.environment), check=False)
        if done.returncode:
            raise UserError(f"{shlex.join(shorten(command))} failed, as said above", exit_code=1)
        return done.stdout

    def with_environment(self, **variables: str) -> "Commands":
        """The same with more variables."""
        return Commands(self.console, {**self.environment, **variables})


def shorten(command: Sequence[str]) -> list[str]:
    """Programs by name and long lists by their beginning, as one would type them."""
    words = [Path(command[0]).name, *command[1:]]
    return words if len(words) <= 12 else [*words[:11], "..."]


@contextmanager
def timed(console: Console, what: str) -> Iterator[None]:
    """Say what begins and how long it took."""
    console.print(f"[bold]{what}[/bold]")
    began = time.monotonic()
    yield
    console.print(f"  {what}: {time.monotonic() - began:.0f} s")


def find_program(name: str, remedy: str) -> str:
    """Raises UserError if it is not installed."""
    found = shutil.which(name)
    if found is None:
        raise UserError(f"{name} is not installed: {remedy}")
    return found


def host_commands(console: Console) -> Commands:
    """With this process's environment; what kubectl and helm learn of the cluster is kept in our cache."""
    cache = cache_root(os.environ)
    caches = {"KUBECACHEDIR": str(cache / "kubectl"), "HELM_CACHE_HOME": str(cache / "helm")}
    return Commands(console, {**os.environ, **caches})
