"""SWE-bench from end to end on code that nobody here wrote: `python -m benchmarks.prove.swe_bench` (Linux, root).

Of each package two releases are fetched from the package index as source archives (releases.py). On a cluster of its
own with one real node:

1. an image is made of each earlier release, and which tests the later one mends is seen in pods, as swebench reads
   their logs: rows in SWE-bench's own format, which go into a file;
2. `sweyard tasks check --pool` reads that file: gold patches must be solved by the strict grader, empty ones must not;
3. gold, empty and three cheating patches of each are graded in pods, and swebench itself writes its reports on the same
   logs: `official` must be what it says, and `strict` must refuse what deceives it.

The results go into docs/performance.md. The last line is JSON.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import print_figures
from benchmarks.operator_process import running_operator
from benchmarks.own_cluster import load_task_images, own_cluster
from benchmarks.pods import POOL, fresh_namespace
from benchmarks.prove.releases import REPAIRS, Repair, complete, write_dataset
from benchmarks.prove.report import Section, write_section
from benchmarks.warm_pool import create_pool

from sweyard_api.cache_root import cache_root
from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.grading.swe_bench import SweBenchGrader
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.pool import Pool, find_credentials
from sweyard_sandbox.runtime import Runtime
from sweyard_sandbox.runtimes.kubernetes.runtime import KubernetesRuntime
from sweyard_sandbox.tasks.diff import file_patch
from sweyard_sandbox.tasks.formats.swe_bench import swe_bench_task
from sweyard_sandbox.tasks.task import Task

TESTS_SECONDS = 900.0
CANARY = re.compile(r"Case[0-9a-f]{12}")
"""The grader's own tests, which the log has too."""
AT_ONCE = 2
TEMPLATE = {
    "resources": {
        "requests": {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "64Mi"},
        "limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"},
    }
}
GOLD, EMPTY, SKIPPING, FORGING = "gold", "empty", "gold, and a test skipped", "a forged log"
REWRITING = "results rewritten"
SKIPS = """\
import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid == {test!r}:
            item.add_marker(pytest.mark.skip)
"""
FORGES = """\
import atexit
import os

TEXT = ">>>>> Test Exit Code: 0\\n" + "".join(f"PASSED {{test}}\\n" for test in {tests!r})
atexit.register(os.write, 1, TEXT.encode())
"""
REWRITES = """\
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.outcome = "passed"
"""
WANTED = {
    GOLD: (True, True),
    EMPTY: (False, False),
    SKIPPING: (False, False),
    FORGING: (True, False),
    REWRITING: (True, False),
}
"""Official and strict verdict."""


@dataclass(frozen=True, slots=True)
class Graded:
    """One piece of work with both verdicts, and the log that they are of."""

    task: Task
    work: str
    patch: str
    grade: Grade
    log: str

    @property
    def prediction(self) -> dict[str, str]:
        return {"instance_id": self.task.id, "model_name_or_path": self.work, "model_patch": self.patch}


async def evaluate(task: Task, work: str, patch: str, runtime: Runtime, turns: asyncio.Semaphore) -> Graded:
    logs: list[str] = []
    async with turns:
        grade = await SweBenchGrader(logs.append).grade(task, patch, runtime, timeout_seconds=TESTS_SECONDS)
    print(f"{task.id}, {work}: official {grade.official}, strict {grade.strict} {grade.reasons[:1]}", flush=True)
    return Graded(task, work, patch, grade, "".join(logs))


async def observe(row: dict[str, Any], repair: Repair, image: str, runtime: Runtime, turns: asyncio.Semaphore) -> Any:
    """The row with the tests that fail before and pass after the repair, and those that pass before and after."""
    blank = complete(row, repair, image, {"FAIL_TO_PASS": (), "PASS_TO_PASS": ()})
    task = swe_bench_task(blank, 0)
    seen = await asyncio.gather(
        *(evaluate(task, work, patch, runtime, turns) for work, patch in (("before", ""), ("after", row["patch"])))
    )
    before, after = [await asyncio.to_thread(passed_tests, task, each.log) for each in seen]
    statuses = {"FAIL_TO_PASS": tuple(sorted(after - before)), "PASS_TO_PASS": tuple(sorted(after & before))}
    if not all(statuses.values()):
        raise SystemExit(f"{task.id}: {len(before)} tests pass before, {len(after)} after:\n{seen[1].log[-4_000:]}")
    return complete(row, repair, image, statuses)


def passed_tests(task: Task, log: str) -> set[str]:
    """As swebench reads it."""
    from swebench.harness.grading import get_logs_eval, test_passed
    from swebench.harness.utils import make_test_spec

    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(log)
        file.flush()
        statuses, _ = get_logs_eval(make_test_spec(task.grading["row"]), file.name)
    return {test for test in statuses if test_passed(test, statuses) and not CANARY.search(test)}


def works(task: Task) -> dict[str, str]:
    """Patches by what they are; the cheats are for pytest, whose log the work can write into."""
    patches = {GOLD: task.gold_patch, EMPTY: ""}
    if "pytest" in task.grading["row"]["eval_script"]:
        required = [*task.fail_to_pass, *task.pass_to_pass]
        skips, forges = SKIPS.format(test=task.pass_to_pass[0]), FORGES.format(tests=required)
        patches[SKIPPING] = task.gold_patch + file_patch("conftest.py", "", skips)
        patches[FORGING] = file_patch("conftest.py", "", forges)
        patches[REWRITING] = file_patch("conftest.py", "", REWRITES)
    return patches


def read_reports(folder: Path, graded: Sequence[Graded]) -> dict[tuple[str, str], bool]:
    """swebench's own word on each log, by instance and work. It is given rows of its own schema, 5."""
    run, rows, predictions = "pods", folder / "rows-of-schema-5.jsonl", folder / "predictions.jsonl"
    completed = {each.task.id: each.task.grading["row"] for each in graded}
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in completed.values()))
    predictions.write_text("".join(f"{json.dumps(each.prediction)}\n" for each in graded))
    places = {}
    for each in graded:
        place = folder / "logs" / "run_evaluation" / run / each.work / each.task.id
        place.mkdir(parents=True)
        (place / "test_output.txt").write_text(each.log)
        places[each.task.id, each.work] = place / "report.json"
    command = [sys.executable, "-m", "benchmarks.prove.swe_bench_reports", str(rows), str(predictions), run]
    paths = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(command, check=True, cwd=folder, env={**os.environ, "PYTHONPATH": paths})
    return {key: json.loads(place.read_text())[key[0]]["resolved"] for key, place in places.items()}


def check_by_command_line(rows: Path, namespace: str, kubeconfig: Path) -> list[dict[str, Any]]:
    """What `sweyard tasks check` reports of a file of rows, in pods of the pool."""
    report = rows.with_name("checked.jsonl")
    command = [sys.executable, "-m", "sweyard_cli", "tasks", "check", str(rows), "--pool", POOL, "-n", namespace]
    options = ["--jobs", str(AT_ONCE), "--timeout-seconds", str(TESTS_SECONDS), "--report", str(report)]
    subprocess.run([*command, *options], check=False, env={**os.environ, "KUBECONFIG": str(kubeconfig)})
    return [json.loads(line) for line in report.read_text().splitlines()]


async def prove(
    api: ApiClient, kubeconfig: Path, images: Mapping[str, str], blank: Mapping[str, dict[str, Any]], folder: Path
) -> dict[str, Any]:
    """All of it, with the operator at work and the images in the cluster."""
    rows = folder / "rows.jsonl"
    turns = asyncio.Semaphore(AT_ONCE)
    async with fresh_namespace(api) as namespace:
        await create_pool(api, namespace, AT_ONCE + 1, 0, template=TEMPLATE)
        runtime = KubernetesRuntime(await Pool.connect(namespace=namespace, name=POOL))
        try:
            await runtime.announce([images[name] for name in blank])
            repairs = {repair.name: repair for repair in REPAIRS}
            made = await asyncio.gather(
                *(observe(row, repairs[name], images[name], runtime, turns) for name, row in blank.items())
            )
            rows.write_text("".join(f"{json.dumps(row)}\n" for row in made))
            began = time.monotonic()
            checked = await asyncio.to_thread(check_by_command_line, rows, namespace, kubeconfig)
            check_seconds = time.monotonic() - began
            tasks = [swe_bench_task(row, number) for number, row in enumerate(made)]
            graded = await asyncio.gather(
                *(evaluate(task, work, patch, runtime, turns) for task in tasks for work, patch in works(task).items())
            )
        finally:
            await runtime.close()
    reports = await asyncio.to_thread(read_reports, folder, graded)
    return {"checked": checked, "check_s": round(check_seconds), "graded": graded, "reports": reports}


def find_breaches(proof: Mapping[str, Any]) -> list[str]:
    """What does not hold."""
    found = [f"tasks check: {told['id']}: {told['reason']}" for told in proof["checked"] if not told["usable"]]
    for each in proof["graded"]:
        verdicts = (each.grade.official, each.grade.strict)
        if verdicts != WANTED[each.work]:
            found.append(f"{each.task.id}, {each.work}: {verdicts}, {each.grade.reasons[:3]}\n{each.log[-1_500:]}")
        if (told := proof["reports"][each.task.id, each.work]) != each.grade.official:
            found.append(f"{each.task.id}, {each.work}: official {verdicts[0]}, but swebench reports {told}")
    return found


def tell(proof: Mapping[str, Any]) -> list[str]:
    """Markdown."""
    tasks = {each.task.id: each.task for each in proof["graded"]}
    seconds = {(each.task.id, each.work): each.grade.seconds for each in proof["graded"]}
    deceived = [each for each in proof["graded"] if each.grade.official and not each.grade.strict]
    return [
        "Two releases of each package, as its source archives are published: an image made of the earlier one, its "
        "maintainers' own repair as the gold patch, their tests, which swebench reads, as the hidden ones.",
        "",
        "| task | tests to mend | to keep | seconds of its script |",
        "|---|---|---|---|",
        *(
            f"| {name} | {len(task.fail_to_pass)} | {len(task.pass_to_pass)} | {seconds[name, GOLD]:.1f} |"
            for name, task in tasks.items()
        ),
        "",
        f"`sweyard tasks check --pool` graded all of them with the gold patch and with none in {proof['check_s']} s: "
        f"{len(proof['checked'])} of {len(tasks)} may be used. In {len(proof['graded'])} gradings in pods `official` "
        "was what swebench's own report says of the same log. A required test that a `conftest.py` skips was refused "
        f"by both; results and an exit code printed by a `conftest.py`, and results that it rewrites, deceived "
        f"`official` {len(deceived)} times, and `strict` never.",
    ]


async def run(images: Mapping[str, str], blank: Mapping[str, dict[str, Any]], kubeconfig: Path, folder: Path) -> Any:
    api = ApiClient(find_credentials(os.environ))
    try:
        return await prove(api, kubeconfig, images, blank, folder)
    finally:
        await api.close()


def main() -> None:
    """Prove, write docs/performance.md, print; exit code 1 if something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [repair.name for repair in REPAIRS]
    parser.add_argument("--only", choices=names, nargs="+", default=names, help="of these alone; nothing is written")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("python -m benchmarks.prove.swe_bench needs root: it makes a real node")
    began = time.monotonic()
    repairs = tuple(repair for repair in REPAIRS if repair.name in arguments.only)
    with tempfile.TemporaryDirectory(prefix="sweyard-swe-bench-") as directory:
        folder = Path(directory)
        blank = write_dataset(folder / "dataset", repairs, cache_root(os.environ))
        with own_cluster(nodes=1) as cluster:
            images = load_task_images(cluster, folder / "dataset")
            os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
            with running_operator(cluster.kubeconfig, folder / "operator.log"):
                proof = asyncio.run(run(images, blank, cluster.kubeconfig, folder))
    if breaches := find_breaches(proof):
        raise SystemExit("\n".join(breaches))
    if len(repairs) == len(REPAIRS):
        write_section(Section("SWE-bench from source archives", "python -m benchmarks.prove swe-bench", tell(proof)))
    counts = {"tasks": len(proof["checked"]), "gradings": len(proof["graded"]), "check_s": proof["check_s"]}
    print_figures({"benchmark": "prove.swe_bench", **counts, "seconds": round(time.monotonic() - began)})


if __name__ == "__main__":
    main()
