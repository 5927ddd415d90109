"""Building the pinned programs once, into a cache addressed by the content of their Go module."""

import hashlib
import math
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import prerequisites
from .errors import ClusterError
from .foreground import running
from .locking import exclusive
from .paths import Cache
from .recipes import GROUPS, Recipe, recipes_for
from .terminal import Progress

COMPILER_FLAGS = ("-gcflags=all=-dwarf=false",)
"""What the linker would throw away is not made: the same programs in a tenth less processor time."""


def content_key(files: Iterable[tuple[str, bytes]], flags: str) -> str:
    """Sixteen hex digits over names, contents and build flags."""
    digest = hashlib.sha256(flags.encode())
    for name, content in files:
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def recipe_key(recipe: Recipe) -> str:
    named = ((path.relative_to(recipe.directory).as_posix(), path.read_bytes()) for path in recipe.files)
    return content_key(named, recipe.linker_flags())


@dataclass(frozen=True)
class Binaries:
    """The built programs of a cache."""

    cache: Cache
    environment: Mapping[str, str]

    def directory(self, recipe: Recipe) -> Path:
        return self.cache.binaries / recipe_key(recipe)

    def path(self, program: str) -> Path:
        """Where a program lies; raises ClusterError if no recipe builds it."""
        for recipe, _ in recipes_for([program]):
            return self.directory(recipe) / program
        raise ClusterError(f"no program {program!r} is built here")

    def ensure(self, groups: Iterable[str], progress: Progress) -> None:
        """Build what is missing of the groups; raises ClusterError with the compiler's words on failure."""
        if missing := self.missing(groups):
            self.build(missing, progress)

    def build(self, missing: list[str], progress: Progress) -> None:
        """Build programs that are missing; raises ClusterError as `ensure` does."""
        prerequisites.ensure({}, progress, go=self.go_environment())
        progress.say(announcement(missing))
        for recipe, wanted in recipes_for(missing):
            lock = self.cache.binaries / f".{recipe_key(recipe)}.lock"
            with exclusive(lock, lambda: progress.await_turn("another build of the same programs")):
                self._build(recipe, [name for name in wanted if not self.path(name).exists()], progress)

    def missing(self, groups: Iterable[str]) -> list[str]:
        """Programs of the groups that are yet to be built."""
        programs = [program for group in groups for program in GROUPS[group]]
        return [program for program in programs if not self.path(program).exists()]

    def _build(self, recipe: Recipe, programs: list[str], progress: Progress) -> None:
        if not programs:
            return
        target = self.directory(recipe)
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.cache.binaries) as scratch:
            with progress.step(f"{', '.join(programs)} {recipe.version()}", long=True):
                self._compile(recipe, programs, Path(scratch), progress)
            for program in programs:
                built = Path(scratch) / program
                check_version(built, recipe.version_command(program), recipe.version())
                os.replace(built, target / program)

    def _compile(self, recipe: Recipe, programs: list[str], output: Path, progress: Progress) -> None:
        packages = [recipe.packages[program] for program in programs]
        last = {package: program for program, package in zip(programs, packages, strict=True)}
        command = ["go", "build", "-v", "-trimpath", "-buildvcs=false", *COMPILER_FLAGS,
                   "-ldflags", recipe.linker_flags(), "-o", f"{output}/", *packages]  # fmt: skip
        lines: list[str] = []
        where = {"cwd": recipe.directory, "env": self.go_environment()}
        with running(command, stderr=subprocess.PIPE, **where) as process:
            assert process.stderr is not None
            for line in process.stderr:
                lines.append(line.rstrip())
                progress.note(f"({len(lines)} packages, {line.strip()})")
                if line.strip() in last:
                    progress.milestone(f"{last[line.strip()]}: {len(lines)} packages compiled, its own is the last")
        if process.returncode:
            raise ClusterError(f"building {', '.join(programs)} failed:\n" + "\n".join(lines[-15:]))

    def module_source(self, directory: Path, module: str) -> Path:
        """Where Go has unpacked a module that the one in `directory` requires; raises ClusterError where it has not."""
        command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
        told = subprocess.run(
            command, cwd=directory, env=self.go_environment(), capture_output=True, text=True, check=False
        )
        if told.returncode or not told.stdout.strip():
            raise ClusterError(f"{module} is not in the cache of Go modules: {told.stderr.strip()}")
        return Path(told.stdout.strip())

    def environment_to_build(self, groups: Iterable[str]) -> dict[str, str] | None:
        """That of Go, if a program of the groups is yet to be built."""
        return self.go_environment() if self.missing(groups) else None

    def go_environment(self) -> dict[str, str]:
        """Go writes into our cache alone: its counters lie beside the user's settings, which are only read."""
        told = self.environment
        home = Path(told.get("HOME", "~")).expanduser()
        settings = Path(told.get("XDG_CONFIG_HOME") or home / ".config") / "go" / "env"
        return {
            **told,
            "CGO_ENABLED": "0",
            "GOENV": told.get("GOENV") or str(settings),
            "GOPATH": str(self.cache.go_path),
            "XDG_CONFIG_HOME": str(self.cache.go_config),
            "GOCACHE": str(self.cache.go_build),
            "GOMODCACHE": str(self.cache.go_modules),
            "GOFLAGS": "-modcacherw",
            # The compiler collects less garbage: four large packages took 17.6 s of processor time in place of 22.4,
            # and the largest of them 581 MB in place of 463. Without any collection: 17.1 s and 1088 MB.
            "GOGC": "400",
        }


def announcement(programs: list[str]) -> str:
    """What is going to be built and how long it takes at most."""
    count = len(programs)
    minutes = math.ceil(sum(recipe.cold_seconds for recipe, _ in recipes_for(programs)) / 60)
    what = f"{count} programs" if count > 1 else programs[0]
    took = f"{minutes} minutes" if minutes > 1 else "a minute"
    return f"Building {what} from source, once: up to {took} with empty caches, on two cores"


def check_version(binary: Path, arguments: Iterable[str], version: str) -> None:
    """Run the program's version command; raises ClusterError unless it names the pinned version."""
    told = subprocess.run([binary, *arguments], capture_output=True, text=True, check=False, timeout=60)
    if told.returncode or version not in told.stdout + told.stderr:
        said = (told.stdout + told.stderr).strip()[:200]
        raise ClusterError(f"{binary.name} should be version {version} but says: {said}")
