"""Attempts of a scripted agent in local sandboxes: how many a second, and the CPU time of each.

    python -m benchmarks.attempts --dataset tiny --attempts 200

An attempt claims a fresh sandbox, edits the fault's line, takes the patch and gives the sandbox back. Grading runs the
task's tests with the right repair, in another fresh sandbox. Baseline, in the same run: the same
tests by a bare fork of this process, in a copy of the tree, without any sandbox, patch or canary.
"""

import argparse
import asyncio
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks.figures import print_figures, summarize_ms

from sweyard_api.cache_root import dataset_directories
from sweyard_api.workload import TaskSource
from sweyard_sandbox.agents.short.agent import apply_edit
from sweyard_sandbox.agents.short.demonstrate import right_edit
from sweyard_sandbox.grading.extract import extract_patch
from sweyard_sandbox.grading.harness.forked import Selection, run_forked
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_sandbox.tasks.prepared import PreparedSandboxes
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tree_image import tree_of


class Attempts:
    """What is measured."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime
        self._sandboxes = PreparedSandboxes(runtime)

    async def attempt(self, task: Task) -> str:
        """One attempt; its patch."""
        async with await self._sandboxes.acquire(task, 60.0) as sandbox:
            path = f"{task.working_directory}/{task.context['path']}"
            said = await apply_edit(path, task.context["line"], right_edit(task).removeprefix("fix "), sandbox)
            patch = (await extract_patch(task, sandbox)).patch
        if said != "ok" or not patch:
            raise RuntimeError(f"task {task.id}: the scripted edit did nothing: {said}")
        return patch

    async def grade(self, task: Task) -> None:
        """One grading of the right repair."""
        verdict = await grade(task, task.gold_patch, self._runtime, timeout_seconds=60.0)
        if not verdict.strict:
            raise RuntimeError(f"task {task.id}: the gold patch fails: {verdict.reasons}")


async def measure(
    name: str, work: Callable[[Task], Awaitable[object]], tasks: Sequence[Task], at_once: int
) -> dict[str, object]:
    """`work` on all `tasks`, so many at once."""
    free, seconds = asyncio.Semaphore(at_once), []

    async def one(task: Task) -> None:
        async with free:
            began = time.perf_counter()
            await work(task)
            seconds.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*map(one, tasks))
    rate = len(tasks) / (time.perf_counter() - began)
    figures: dict[str, object] = {"per_second": round(rate, 1), **summarize_ms(seconds)}
    print(f"{name}: {figures}", flush=True)
    return figures


def fork_bare(tasks: Sequence[Task]) -> dict[str, object]:
    """The baseline: one after the other, on the clean trees."""
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        trees = {task.image: Path(folder) / str(number) for number, task in enumerate(tasks)}
        for image, tree in trees.items():
            source = tree_of(image)
            assert source is not None, f"{image} is a container image"
            shutil.copytree(source, tree, symlinks=True)
        seconds = []
        before = _children_cpu_seconds()
        for task in tasks:
            os.chdir(trees[task.image])
            required = (*task.fail_to_pass, *task.pass_to_pass)
            run = run_forked(
                Selection(task.grading["runner"], required, tuple(task.grading["python_path"])), timeout_seconds=60.0
            )
            if [outcome for _, outcome, _ in run.records] != ["passed"] * len(required):
                raise RuntimeError(f"task {task.id}: its tests do not pass on the clean tree")
            seconds.append(run.seconds)
        cpu = _children_cpu_seconds() - before
        os.chdir(home)
    figures: dict[str, object] = {"cpu_ms": round(1e3 * cpu / len(tasks), 1), **summarize_ms(seconds)}
    print(f"bare forks: {figures}", flush=True)
    return figures


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def run(arguments: argparse.Namespace) -> dict[str, object]:
    """All measurements, the first use of each task (which prepares it) apart."""
    found = load_tasks(TaskSource(dataset=arguments.dataset, split="train"), dataset_directories(os.environ))
    tasks = [task for task in found if task.grading["runner"] == "unittest"][: arguments.tasks]
    repeated = [tasks[number % len(tasks)] for number in range(arguments.attempts)]
    runtime = LocalRuntime(LocalConfig(max_sandboxes=arguments.at_once))
    try:
        attempts = Attempts(runtime)
        first = await measure("first attempts", attempts.attempt, tasks, arguments.at_once)
        later = await measure("later attempts", attempts.attempt, repeated, arguments.at_once)
        graded = await measure("gradings", attempts.grade, repeated, arguments.at_once)
    finally:
        await runtime.close()
    return {"first_attempts": first, "attempts": later, "gradings": graded, "baseline": fork_bare(repeated)}


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="tiny", help="made by `sweyard tasks make`")
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--attempts", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=16)
    arguments = parser.parse_args()
    figures = asyncio.run(run(arguments))
    print_figures({"benchmark": "attempts", **figures, "cores": os.cpu_count()})


if __name__ == "__main__":
    main()
