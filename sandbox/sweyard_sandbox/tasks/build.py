"""From a verified mutation to a Task, and from tasks to a data set's folder."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from sweyard_sandbox.tasks.diff import unified_diff
from sweyard_sandbox.tasks.mutation.find import Mutation
from sweyard_sandbox.tasks.place import place_file, place_tree
from sweyard_sandbox.tasks.source import Source
from sweyard_sandbox.tasks.statement import problem_statement
from sweyard_sandbox.tasks.suite import Suite
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tasks.tasks_file import TASKS_FILE, compressed
from sweyard_sandbox.tasks.verify import Verdict
from sweyard_sandbox.tree_image import tree_image

WORKING_DIRECTORY = "/testbed"
CONTEXT_LINES = 0
CONTEXT_CHARACTERS = 72
HARD_FAILURES, MEDIUM_FAILURES = 1, 4
"""Most tests that fail with a bug which is called so."""

DOCKERFILE = """\
# One image serves all tasks of this package: its clean tree. The fault is put in when an attempt begins.
# Needs python3 with venv, and git in the base. Build context: the data set's folder.
ARG BASE_IMAGE=python:3.11-bookworm
FROM ${{BASE_IMAGE}}
{runner}COPY trees/{package} {directory}
WORKDIR {directory}
"""


INSTALL_PYTEST = """\
RUN python3 -m venv /opt/tests && /opt/tests/bin/pip install --quiet --no-cache-dir pytest=={version}
ENV PATH=/opt/tests/bin:/usr/local/bin:/usr/bin:/bin
"""


def build_task(source: Source, suite: Suite, mutation: Mutation, verdict: Verdict, split: str) -> Task:
    """The task of one verified mutation."""
    clean = (source.root / mutation.path).read_bytes().decode()
    broken = mutation.apply(clean)
    digest = hashlib.sha256(f"{source.version}:{mutation.key}".encode()).hexdigest()[:8]
    fail_to_pass = tuple(test for test, _ in verdict.failures)
    return Task(
        id=f"{source.name}-{mutation.kind.replace('_', '-')}-{digest}",
        repository=source.name,
        image=tree_image(f"trees/{source.name}"),
        working_directory=WORKING_DIRECTORY,
        problem_statement=problem_statement(source.name, list(verdict.failures)),
        gold_patch=unified_diff(mutation.path, broken, clean),
        setup_patch=unified_diff(mutation.path, clean, broken),
        fail_to_pass=fail_to_pass,
        pass_to_pass=verdict.pass_to_pass,
        grading={
            "runner": suite.runner,
            "python_path": list(suite.python_path),
            "test_files": list(suite.test_files),
            "hidden_files": sorted({test.split("::", 1)[0] for test in fail_to_pass}),
        },
        context=fault_context(mutation, broken),
        tags=(f"split:{split}", f"kind:{mutation.kind}", f"difficulty:{difficulty_of(len(fail_to_pass))}"),
    )


def difficulty_of(num_failing: int) -> str:
    """What a single test notices is hard to pin down; what many notice shows itself from many sides."""
    if num_failing <= HARD_FAILURES:
        return "hard"
    return "medium" if num_failing <= MEDIUM_FAILURES else "easy"


def fault_context(mutation: Mutation, broken: str) -> dict[str, object]:
    """Where the fault is, for agents that are told: file, function, line, and the lines around it, dedented."""
    lines = broken.split("\n")
    numbers = range(max(1, mutation.line - CONTEXT_LINES), min(len(lines), mutation.line + CONTEXT_LINES) + 1)
    shown = [[number, lines[number - 1].rstrip()] for number in numbers if lines[number - 1].strip()]
    margin = min(len(str(text)) - len(str(text).lstrip()) for _, text in shown)
    cut = [[number, str(text)[margin:]] for number, text in shown]
    return {"path": mutation.path, "function": mutation.function, "line": mutation.line, "lines": cut}


def write_dataset(out: Path, tasks: Sequence[Task], sources: Sequence[Source], seed: int) -> None:
    """Trees, image recipes, card, and last the tasks themselves: a folder with TASKS_FILE is complete.

    What is there already and unchanged is not written again.
    """
    with_pytest = {task.repository for task in tasks if task.grading.get("runner") == "pytest"}
    for source in sources:
        place_tree(out / "trees" / source.name, source.root)
        recipe = image_recipe(source.name, uses_pytest=source.name in with_pytest)
        place_file(out / "images" / source.name / "Dockerfile", recipe.encode())
    place_file(out / "README.md", card(tasks, sources, seed).encode())
    place_file(out / TASKS_FILE, compressed(tasks))


def image_recipe(package: str, *, uses_pytest: bool) -> str:
    """Dockerfile of a package's tasks, with the version of pytest that they were verified with."""
    runner = INSTALL_PYTEST.format(version=version("pytest")) if uses_pytest else ""
    return DOCKERFILE.format(package=package, directory=WORKING_DIRECTORY, runner=runner)


def card(tasks: Sequence[Task], sources: Sequence[Source], seed: int) -> str:
    """What the data set holds and under which licences its sources are."""
    rows = [f"| {source.name} | {source.version} | {source.licence} |" for source in sources]
    tags = Counter(tag for task in tasks for tag in task.tags)
    counts = [f"| {tag} | {tags[tag]} |" for tag in sorted(tags)]
    return "\n".join(
        [
            f"# {len(tasks)} bug-repair tasks",
            "",
            f"Made by `sweyard tasks make` with seed {seed}. The trees are unmodified sources of these packages:",
            "",
            "| package | version | licence, as declared |",
            "|---|---|---|",
            *rows,
            "",
            "| tag | tasks |",
            "|---|---|",
            *counts,
            "",
        ]
    )
