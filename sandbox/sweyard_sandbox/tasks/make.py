"""Make a data set of verified bug-repair tasks from Python packages.

The same sources, seed and options give the same tasks, whatever the number of processes. What was verified before an
interruption is not verified again.
"""

import hashlib
import json
import random
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path

from sweyard_sandbox.tasks.build import build_task, write_dataset
from sweyard_sandbox.tasks.mutation.find import Mutation, find_mutations
from sweyard_sandbox.tasks.practice import practice_tasks
from sweyard_sandbox.tasks.sizes import USUAL, Kept, Made, keep, share
from sweyard_sandbox.tasks.source import Source
from sweyard_sandbox.tasks.suite import Suite, discover
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tasks.undisturbed import undisturbed
from sweyard_sandbox.tasks.verdict_journal import VerdictJournal
from sweyard_sandbox.tasks.verify import UNNOTICED, Verdict, Work, prepare_worker, verify

HELDOUT_PERCENT = 25
AHEAD_PER_JOB = 3

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Quotas:
    """How many tasks to make, over all packages of each kind; None for the usual number, or what there is of it."""

    train: int | None = None
    heldout: int | None = None
    unseen: int | None = None
    practice: int = 0
    """Not verified, for demonstrations only."""


@dataclass(frozen=True, slots=True)
class Options:
    """What shapes a data set."""

    seed: int = 0
    quotas: Quotas = Quotas()
    kinds: frozenset[str] = frozenset()
    """Kinds of bug to use; empty for all."""
    per_function: int = 6
    """At most so many tasks of one function."""
    jobs: int = 2


def make_dataset(out: Path, packages: list[Source], unseen: list[Source], options: Options, progress: Progress) -> Kept:
    """Make tasks and write the data set to `out`: train and heldout (other functions) of `packages`, and `unseen`.

    Raises SourceError where a package has no suite that passes, or where there are fewer tasks than asked for.
    """
    tasks: list[Task] = []
    remarks: list[str] = []
    for sources, splits in ((packages, ("train", "heldout")), (unseen, ("unseen",))):
        if sources:
            asked = {split: getattr(options.quotas, split) for split in splits}
            kept = _kept_of(out, sources, asked, options, {task.problem_statement for task in tasks}, progress)
            tasks += kept.tasks
            remarks += filter(None, [kept.remark])
    for number, source in enumerate(packages):
        tasks += _practice_of(source, share(options.quotas.practice, number, len(packages)), tasks, options)
    write_dataset(out, tasks, [*packages, *unseen], options.seed)
    return Kept(tasks, "\n".join(remarks))


def _kept_of(
    out: Path,
    sources: list[Source],
    asked: dict[str, int | None],
    options: Options,
    seen: set[str],
    progress: Progress,
) -> Kept:
    made: list[Made] = []
    for number, source in enumerate(sources):
        totals = {split: USUAL[split] if total is None else total for split, total in asked.items()}
        quotas = {split: share(total, number, len(sources)) for split, total in totals.items()}
        made.append(_tasks_of(out, source, quotas, options, seen, progress))
        seen |= {task.problem_statement for task in made[-1].tasks}
    return keep(made, asked, options.per_function)


def _practice_of(source: Source, count: int, tasks: list[Task], options: Options) -> list[Task]:
    """Practice in the functions of `source` that no held-out task may be in."""
    if count == 0:
        return []
    suite = discover(source.root)
    split_of = split_functions(candidates(source.root, suite, options), options.seed, ("train", "heldout"))
    return practice_tasks(
        source,
        suite,
        count,
        kinds=options.kinds,
        held_out_places={place for place, split in split_of.items() if split == "heldout"},
        held_out=[task for task in tasks if not {"split:train", "split:practice"} & set(task.tags)],
        seed=options.seed,
    )


def _tasks_of(
    out: Path, source: Source, quotas: dict[str, int], options: Options, seen: set[str], progress: Progress
) -> Made:
    progress(f"{source.name} {source.version}: running its own tests, twice")
    suite = discover(source.root)
    progress(f"{source.name} {source.version}: {len(suite.coverage)} tests, {suite.runner}")
    mutations = candidates(source.root, suite, options)
    split_of = split_functions(mutations, options.seed, tuple(quotas))
    out.mkdir(parents=True, exist_ok=True)  # not before there is something to keep
    journal = VerdictJournal(out / "verified.jsonl", f"{source.name}=={source.version} {suite.runner}")
    counts: Counter[str] = Counter()
    per_function: Counter[str] = Counter()
    shown: set[str] = set()
    tried: set[str] = set()
    unnoticed = 0
    tasks: list[Task] = []

    def wanted(mutation: Mutation) -> bool:
        split = split_of[mutation.place]
        return counts[split] < quotas[split] and per_function[mutation.place] < options.per_function

    for mutation, verdict in _verified(source, suite, mutations, options.jobs, journal, wanted):
        if not wanted(mutation):
            continue
        tried.add(mutation.key)
        unnoticed += verdict.rejected == UNNOTICED
        if verdict.rejected:
            continue
        split = split_of[mutation.place]
        task = build_task(source, suite, mutation, verdict, split)
        key = json.dumps(task.context["lines"])
        if key in shown or (task.problem_statement in seen and split != "train"):
            continue
        shown.add(key)
        counts[split] += 1
        per_function[mutation.place] += 1
        tasks.append(task)
        progress(f"{source.name}: " + ", ".join(f"{counts[split]}/{quotas[split]} {split}" for split in quotas))
    spared = sum(
        mutation.key not in tried and counts[split_of[mutation.place]] < quotas[split_of[mutation.place]]
        for mutation in mutations
    )
    return Made(source.name, quotas, tasks, unnoticed, len(tried) - len(tasks) - unnoticed, spared)


def candidates(root: Path, suite: Suite, options: Options) -> list[Mutation]:
    """Covered mutations in the order in which they are tried: shuffled by seed, kinds taking turns."""
    covered = {function for functions in suite.coverage.values() for function in functions}
    by_kind: dict[str, list[Mutation]] = {}
    for path in suite.source_files:
        for mutation in find_mutations(path, (root / path).read_bytes().decode()):
            chosen = not options.kinds or mutation.kind in options.kinds
            if chosen and (mutation.path, mutation.function_line) in covered:
                by_kind.setdefault(mutation.kind, []).append(mutation)
    for kind, mutations in by_kind.items():
        random.Random(f"{options.seed}:{root.name}:{kind}").shuffle(mutations)
    turns = zip_longest(*(by_kind[kind] for kind in sorted(by_kind)))
    return [mutation for turn in turns for mutation in turn if mutation is not None]


def split_functions(mutations: list[Mutation], seed: int, splits: tuple[str, ...]) -> dict[str, str]:
    """Split of each whole function, `path:name`. The last split gets functions with a share of the mutations."""
    sizes = Counter(mutation.place for mutation in mutations)
    order = sorted(sizes, key=lambda place: hashlib.sha256(f"{seed}:{place}".encode()).digest())
    chosen = dict.fromkeys(order, splits[0])
    taken = 0
    for place in order if len(splits) > 1 else ():
        if taken * 100 >= HELDOUT_PERCENT * len(mutations):
            break
        chosen[place] = splits[-1]
        taken += sizes[place]
    return chosen


def _verified(
    source: Source,
    suite: Suite,
    mutations: list[Mutation],
    jobs: int,
    journal: VerdictJournal,
    wanted: Callable[[Mutation], bool],
) -> Iterator[tuple[Mutation, Verdict]]:
    """Verdicts in the order of `mutations`, a few ahead in parallel; what is no longer wanted is not run."""
    waiting: deque[tuple[Mutation, Verdict | Future[Verdict]]] = deque()
    context = get_context("forkserver")
    context.set_forkserver_preload([prepare_worker.__module__])
    with (
        tempfile.TemporaryDirectory(prefix="sweyard-verify-") as folder,
        ProcessPoolExecutor(
            jobs, mp_context=context, initializer=prepare_worker, initargs=(suite.runner, folder)
        ) as pool,
    ):
        try:
            for mutation in mutations:
                if not wanted(mutation):
                    continue
                known = journal.get(mutation)
                tests = tuple(suite.covering(mutation.path, mutation.function_line))
                work = Work(source.root, suite.runner, suite.python_path, mutation, tests)
                with undisturbed():  # a pool that starts a worker and never hears of it waits at its end for ever
                    waiting.append((mutation, known or pool.submit(verify, work)))
                while len(waiting) >= jobs * AHEAD_PER_JOB:
                    yield _settled(*waiting.popleft(), journal)
            while waiting:
                yield _settled(*waiting.popleft(), journal)
        finally:  # an interrupt waits for what is under way alone
            pool.shutdown(cancel_futures=True)


def _settled(
    mutation: Mutation, verdict: "Verdict | Future[Verdict]", journal: VerdictJournal
) -> tuple[Mutation, Verdict]:
    if isinstance(verdict, Future):
        verdict = verdict.result()
        journal.put(mutation, verdict)
    return mutation, verdict
