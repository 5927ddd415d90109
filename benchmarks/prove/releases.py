"""Tasks of real code as SWE-bench makes them: two releases of a package, as its maintainers published them.

The earlier release is the repository, what its code differs in from the later one is the gold patch, and what its tests
differ in is the test patch. Source archives come from the package index. A row is in the schema of swebench 4 where
that knew the repository, and in the schema of swebench 5 elsewhere.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweyard_sandbox.tasks.formats.eval_script import Testing, fields_of_testing
from sweyard_sandbox.tasks.formats.testing_commands import SWE_BENCH
from sweyard_sandbox.tasks.source import fetch_package

DIRECTORY = "/testbed"
DATE = "2000-01-01T00:00:00Z"
COMMIT = "git -c user.name=release -c user.email=release@localhost commit --quiet --message"
RECIPE = """\
ARG BASE_IMAGE
FROM ${{BASE_IMAGE}}
COPY trees/{name} {directory}
WORKDIR {directory}
RUN git init --quiet --initial-branch=main \\
 && git add --all --force \\
 && GIT_AUTHOR_DATE={date} GIT_COMMITTER_DATE={date} {commit} {name} \\
 && test "$(git rev-parse HEAD)" = {base_commit}
RUN python3 -m venv /opt/tests \\
 && /opt/tests/bin/pip install --quiet --no-cache-dir --editable . {requirements}
ENV PATH=/opt/tests/bin:/usr/local/bin:/usr/bin:/bin
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What the maintainers of a package changed from one release to the next."""

    package: str
    before: str
    after: str
    repository: str
    version: str
    """As SWE-bench names it: that of the repository's way of testing."""
    sources: str
    """Folder of the code."""
    tests: str
    requirements: str = ""
    """What its tests need beside itself, for pip."""
    testing: Testing | None = None
    """For a repository that swebench 4 did not know."""

    @property
    def name(self) -> str:
        """Of its tree and of its image."""
        return f"{self.package.lower()}-{self.before}"

    @property
    def instance(self) -> str:
        return f"{self.repository.replace('/', '__')}-{self.after}"


PYTEST = Testing("python -m pytest -rA -p no:cacheprovider")
REPAIRS = (
    Repair(
        package="sqlparse",
        before="0.5.1",
        after="0.5.2",
        repository="andialbrecht/sqlparse",
        version="0.5",
        sources="sqlparse",
        tests="tests",
        requirements="pytest==8.4.2",
        testing=PYTEST,
    ),
    Repair(
        package="flask",
        before="2.3.1",
        after="2.3.2",
        repository="pallets/flask",
        version="2.3",
        sources="src",
        tests="tests",
        requirements="pytest==8.4.2 werkzeug==2.3.8",
    ),
    Repair(
        package="Django",
        before="4.2.15",
        after="4.2.16",
        repository="django/django",
        version="4.2",
        sources="django",
        tests="tests",
    ),
)


def write_dataset(folder: Path, repairs: tuple[Repair, ...], cache: Path) -> dict[str, dict[str, Any]]:
    """Trees and image recipes in `folder`, as `sweyard_cluster images tasks` reads them; by the name of a repair its
    row, which says neither its image nor its tests yet. Raises SourceError."""
    return {repair.name: _write(folder, repair, cache) for repair in repairs}


def _write(folder: Path, repair: Repair, cache: Path) -> dict[str, Any]:
    before, after = (
        fetch_package(f"{repair.package}=={version}", cache).root for version in (repair.before, repair.after)
    )
    tree = folder / "trees" / repair.name
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(before, tree, symlinks=True)
    base_commit, patch, test_patch = compare(before, after, repair)
    recipe = folder / "images" / repair.name / "Dockerfile"
    recipe.parent.mkdir(parents=True, exist_ok=True)
    words = {"name": repair.name, "directory": DIRECTORY, "date": DATE, "commit": COMMIT}
    recipe.write_text(RECIPE.format(**words, base_commit=base_commit, requirements=repair.requirements))
    return {
        "instance_id": repair.instance,
        "repo": repair.repository,
        "base_commit": base_commit,
        "version": repair.version,
        "problem_statement": f"{repair.package} {repair.before} has what {repair.after} mended.",
        "patch": patch,
        "test_patch": test_patch,
    }


def compare(before: Path, after: Path, repair: Repair) -> tuple[str, str, str]:
    """The commit that a repository of `before` alone has, and the patches of code and of tests to `after`."""
    with tempfile.TemporaryDirectory(prefix="sweyard-releases-") as repository:
        dated = {**os.environ, "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
        _git(f"git init --quiet --initial-branch=main {repository}", before, dated)
        environment = {**dated, "GIT_DIR": f"{repository}/.git"}
        for tree in (before, after):
            _git(f"git add --all --force && {COMMIT} {repair.name}", tree, {**environment, "GIT_WORK_TREE": str(tree)})
        base_commit = _git("git rev-parse HEAD~", before, environment).strip()
        patch, test_patch = (
            _git(f"git diff --no-renames HEAD~ HEAD -- {place}", before, environment)
            for place in (repair.sources, repair.tests)
        )
    return base_commit, patch, test_patch


def complete(
    row: dict[str, Any], repair: Repair, image: str, statuses: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """The published form of a row; `statuses` are its FAIL_TO_PASS and PASS_TO_PASS."""
    row = row | {"image": image} | {name: list(tests) for name, tests in statuses.items()}
    if repair.testing is None:
        assert repair.repository in SWE_BENCH, repair.repository
        return row
    return row | fields_of_testing(repair.testing, row, repair.instance, directory=DIRECTORY, setup=())


def _git(script: str, tree: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(["sh", "-c", script], cwd=tree, env=environment, check=True, capture_output=True, text=True)
    return done.stdout
