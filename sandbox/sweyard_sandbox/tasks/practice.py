"""Practice: mutations that no test has verified, for demonstrations only. Imitating an edit needs no tests.

They come from every function that no held-out task is in, and never show lines that a held-out task shows.
"""

import hashlib
import random
from collections.abc import Collection, Iterable

from sweyard_sandbox.tasks.build import WORKING_DIRECTORY, fault_context
from sweyard_sandbox.tasks.diff import unified_diff
from sweyard_sandbox.tasks.mutation.find import Mutation, find_mutations
from sweyard_sandbox.tasks.source import Source
from sweyard_sandbox.tasks.suite import Suite
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tree_image import tree_image

STATEMENT = "A fault was put into this repository. Find and repair it.\n"


def practice_tasks(
    source: Source,
    suite: Suite,
    count: int,
    *,
    kinds: Collection[str],
    held_out_places: Collection[str],
    held_out: Iterable[Task],
    seed: int,
) -> list[Task]:
    """At most `count`, drawn by seed from all mutations of `kinds` (empty for all)."""
    texts = {path: (source.root / path).read_bytes().decode() for path in suite.source_files}
    mutations = [
        mutation
        for path, text in texts.items()
        for mutation in find_mutations(path, text)
        if (not kinds or mutation.kind in kinds) and mutation.place not in held_out_places
    ]
    random.Random(f"{seed}:{source.name}:practice").shuffle(mutations)
    shown = {_shown(task) for task in held_out}
    tasks: list[Task] = []
    for mutation in mutations:
        if len(tasks) == count:
            break
        task = _practice_task(source, mutation, texts[mutation.path])
        if _shown(task) not in shown:
            tasks.append(task)
    return tasks


def _practice_task(source: Source, mutation: Mutation, clean: str) -> Task:
    broken = mutation.apply(clean)
    digest = hashlib.sha256(f"{source.version}:{mutation.key}".encode()).hexdigest()[:8]
    return Task(
        id=f"practice-{source.name}-{mutation.kind.replace('_', '-')}-{digest}",
        repository=source.name,
        image=tree_image(f"trees/{source.name}"),
        working_directory=WORKING_DIRECTORY,
        problem_statement=STATEMENT,
        gold_patch=unified_diff(mutation.path, broken, clean),
        setup_patch=unified_diff(mutation.path, clean, broken),
        fail_to_pass=(),
        context=fault_context(mutation, broken),
        tags=("split:practice", f"kind:{mutation.kind}"),
    )


def _shown(task: Task) -> tuple[str, ...]:
    """The lines that an agent is shown, without their numbers."""
    return tuple(text for _, text in task.context["lines"])
