"""Do the tests notice when the learning rule is wrong? Every mutant of its files against their tests.

`python -m benchmarks.prove.mutation [--file NAME] [--workers N]`: a process that has imported what tests need forks for
each mutant, in which the mutant takes its module's place and pytest runs the module's tests until one fails. Writes
docs/mutation-report.md, with `--file` the lines of these files alone; a survivor that `equivalent_mutants.yaml` does
not justify is an error. Last line is JSON.
"""

import argparse
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from benchmarks.prove.mutants import Mutant, make_mutants

ROOT = Path("trainer/sweyard_trainer")
REPORT = Path("docs/mutation-report.md")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.yaml")
SHELF = ("tests/trainer/algorithm/test_losses.py", "tests/trainer/algorithm/test_advantages.py")
OBJECTIVE = ("tests/trainer/algorithm/test_objective.py",)
BATCHES = ("tests/trainer/learner/test_batches.py", *OBJECTIVE, "tests/trainer/algorithm/test_custom_code.py")
PURE = ("advantages", "aggregation", "cispo", "importance", "kl", "learning_signal", "policy_loss", "ratios")
TESTS: Mapping[str, Sequence[str]] = {
    **{f"algorithm/{name}.py": (*SHELF, *OBJECTIVE) for name in PURE},
    "algorithm/outcomes.py": (*SHELF, *BATCHES),
    "algorithm/overlong.py": SHELF,
    "learner/objective.py": OBJECTIVE,
    "learner/batches.py": BATCHES,
    "learner/group_signal.py": ("tests/trainer/learner/test_group_signal.py",),
    "learner/sequences.py": (*OBJECTIVE, "tests/trainer/learner/test_packing.py"),
    "learner/microbatches.py": ("tests/trainer/learner/test_microbatches.py",),
    "custom.py": BATCHES,
}
"""Files of the learning rule, and the tests that answer for them."""
OPTIONS = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
UNDER_TEST = ("sweyard_trainer", "tests")
"""Packages that each fork imports anew."""
MOST_CPU_SECONDS = 15
"""A mutant that loops for ever is killed after so much, whatever else the machine does, and counts as noticed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutant."""

    file: str
    mutant: Mutant
    how: str
    """survived, failed (a test did), broken (it could not even be collected), timeout."""


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a text."""

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, f"<mutant of {self._name}>", "exec"), module.__dict__)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prove.mutation", description=__doc__)
    parser.add_argument("--file", choices=sorted(TESTS), action="append", help="only these")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    began = time.monotonic()
    _warm_up(arguments.file or TESTS)
    work = [
        (file, mutant)
        for file in arguments.file or TESTS
        for mutant in make_mutants((ROOT / file).read_text(encoding="utf-8"))
    ]
    for file in arguments.file or TESTS:
        assert _verdict(os.waitpid(_fork(file, None), 0)[1]) == "survived", f"{file}: its tests fail without a mutant"
    known = {(entry["file"], entry["before"], entry["after"]): entry["why"] for entry in _equivalent()}
    verdicts: list[Verdict] = []
    open_cases: list[Verdict] = []
    for verdict in _judge(work, arguments.workers):
        verdicts.append(verdict)
        if verdict.how == "survived" and _key(verdict) not in known:
            open_cases.append(verdict)
            print(_told(verdict), flush=True)
        if len(verdicts) % 50 == 0:
            print(f"{len(verdicts)} of {len(work)}", flush=True)
    verdicts.sort(key=lambda verdict: (list(TESTS).index(verdict.file), verdict.mutant.line))
    seconds = time.monotonic() - began
    earlier = REPORT.read_text(encoding="utf-8").splitlines() if REPORT.exists() else []
    REPORT.write_text("\n".join(report(verdicts, known, earlier)) + "\n", encoding="utf-8")
    counts = Counter(verdict.how for verdict in verdicts)
    print(json.dumps({"mutants": len(verdicts), **counts, "unjustified": len(open_cases), "seconds": round(seconds)}))
    sys.exit(bool(open_cases))


def _warm_up(files: Iterable[str]) -> None:
    """Import what the tests of `files` need, but for what is under test: every fork begins with it."""
    collected = _in_silence(["--collect-only", *dict.fromkeys(test for file in files for test in TESTS[file])])
    assert collected == 0, "the tests cannot be collected without a mutant"
    for name in [name for name in sys.modules if name.partition(".")[0] in UNDER_TEST]:
        del sys.modules[name]
    gc.collect()
    gc.freeze()  # else each fork's collector would touch, and so copy, all of it


def _in_silence(arguments: Sequence[str]) -> int:
    """pytest's exit code."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        return int(pytest.main([*OPTIONS, *arguments]))


def _judge(work: Sequence[tuple[str, Mutant]], workers: int) -> Iterator[Verdict]:
    """As each is known."""
    running: dict[int, tuple[str, Mutant]] = {}
    queue = list(reversed(work))
    while queue or running:
        while queue and len(running) < workers:
            file, mutant = queue.pop()
            running[_fork(file, mutant.source)] = (file, mutant)
        pid, status = os.wait()
        yield Verdict(*running.pop(pid), _verdict(status))


def _fork(file: str, source: str | None) -> int:
    """Process id of a child that runs the tests of `file`, with `source` in its place."""
    pid = os.fork()
    if pid:
        return pid
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS + 5))
    if source is not None:
        name = "sweyard_trainer." + file.removesuffix(".py").replace("/", ".")
        assert name not in sys.modules, f"{name} was imported before its mutant could be"
        sys.meta_path.insert(0, _Instead(name, source))
    os._exit(_in_silence(["-x", "-m", "not (slow or vllm or gpu)", *TESTS[file]]))


def _verdict(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) == signal.SIGXCPU else "broken"
    return {0: "survived", 1: "failed"}.get(os.waitstatus_to_exitcode(status), "broken")


def _equivalent() -> list[dict[str, str]]:
    entries: list[dict[str, str]] = yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or []
    return entries


def _told(verdict: Verdict) -> str:
    return f"survived: {verdict.file}:{verdict.mutant.line}\n  - {verdict.mutant.before}\n  + {verdict.mutant.after}"


def _key(verdict: Verdict) -> tuple[str, str, str]:
    return verdict.file, verdict.mutant.before, verdict.mutant.after


def report(
    verdicts: Sequence[Verdict], known: Mapping[tuple[str, str, str], str], earlier: Sequence[str] = ()
) -> list[str]:
    """Markdown; what an `earlier` report says of files without verdicts stays."""
    judged = {verdict.file for verdict in verdicts}
    stays = [line for line in earlier if line.startswith("| `") and line.split("`")[1] not in judged]
    lines = [
        "# Mutants of the learning rule",
        "",
        "`python -m benchmarks.prove mutation` makes small wrongs in the files below, one at a time (another operator, "
        "sign, constant, min or max, boolean; a call left out; a condition turned round), and runs the tests that "
        "answer for the file.",
        "",
        "| file | mutants | a test failed | could not run | looped | survived |",
        "|---" * 6 + "|",
    ]
    for file in TESTS:
        counts = Counter(verdict.how for verdict in verdicts if verdict.file == file)
        cells = [counts.total(), *(counts[how] for how in ("failed", "broken", "timeout", "survived"))]
        counted = f"| `{file}` | " + " | ".join(map(str, cells)) + " |"
        lines += [counted] if file in judged else [line for line in stays if _counts(line, file)]
    lines += ["", "## Survivors", "", "| file | original | mutant | why no test can fail |", "|---" * 4 + "|"]
    for file in TESTS:
        lines += [line for line in stays if line.startswith(f"| `{file}` |") and not _counts(line, file)]
        lines += [
            _survivor(verdict, known) for verdict in verdicts if (verdict.file, verdict.how) == (file, "survived")
        ]
    return lines


def _counts(line: str, file: str) -> bool:
    """Whether it is of the table of counts."""
    return line.removeprefix(f"| `{file}` | ")[:1].isdigit()


def _survivor(verdict: Verdict, known: Mapping[tuple[str, str, str], str]) -> str:
    why = known.get(_key(verdict), "**not justified**")
    return f"| `{verdict.file}` | {_code(verdict.mutant.before)} | {_code(verdict.mutant.after)} | {why} |"


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


if __name__ == "__main__":
    main()
