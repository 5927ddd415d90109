"""A run that is killed twenty times ends as if undisturbed: `python -m benchmarks.prove.resume [--kills 20]`.

A tiny model learns strictly on-policy from a serial engine (one attempt at a time, seeds by counter), first
undisturbed, then in lives that kill -9 ends at seeded random moments: in rollouts, in updates, in weight syncs, while
checkpoints are written. Losses, sampled tokens and final weights must be equal bit for bit. The last line is JSON.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml
from benchmarks.figures import print_figures
from benchmarks.prove.report import Section, write_section

from sweyard_sandbox.tasks.make import Options, Quotas
from sweyard_sandbox.tasks.making import Making, run
from sweyard_trainer.rollouts.reading import read_attempts

STEPS = 8
DEADLINE_SECONDS = 400.0
"""Within which a life must reach the moment of its end."""
FUNCTION = (
    "def pick{0}(items, limit):\n    if items == [] and limit < {0}:\n        return None\n    return limit + {0}\n"
)


def make_data_set(root: Path) -> Path:
    """A data set `gauge` of a package of six functions; the folder to look it up in."""
    repository = root / "gauge"
    (repository / "gauge").mkdir(parents=True)
    (repository / "tests").mkdir()
    (repository / "gauge" / "__init__.py").write_text("")
    (repository / "gauge" / "core.py").write_text("\n\n".join(FUNCTION.format(n) for n in range(3, 9)))
    cases = "".join(
        f"    def test_{n}(self):\n"
        f"        self.assertEqual((pick{n}([], 0), pick{n}([1], 0), pick{n}([], {n})), (None, {n}, {2 * n}))\n\n"
        for n in range(3, 9)
    )
    head = "import unittest\n\nfrom gauge.core import *\n\n\nclass CoreTest(unittest.TestCase):\n"
    (repository / "tests" / "test_core.py").write_text(head + cases)
    (repository / "pyproject.toml").write_text('[project]\nname = "gauge"\nlicense = "MIT"\n')
    options = Options(quotas=Quotas(train=8, heldout=2))
    out = root / "out" / "gauge"
    return run(Making(name="gauge", repositories=[repository], cache=root / "cache", options=options, out=out)).parent


def run_document(steps: int) -> dict[str, Any]:
    """One attempt at a time: then even the sampled tokens do not depend on timing."""
    spec: dict[str, Any] = {
        "preset": "tiny",
        "steps": steps,
        "model": {"scratch": {"layers": 2, "hiddenSize": 64, "vocabularySize": 400}},
        "tasks": {
            "train": {"dataset": "gauge", "split": "train"},
            "eval": [{"dataset": "gauge", "split": "heldout", "name": "heldout"}],
        },
        "rollout": {"groupsPerStep": 2, "groupSize": 2, "maxConcurrent": 1, "maxTokensPerTurn": 24},
        "sandboxes": {"replicas": 1},
        "warmup": {"steps": 20, "batchSize": 8},
        "reward": {"verifyTasks": False},
        "evaluation": {"everySteps": 2},
        "checkpoint": {"everySteps": 1},
    }
    return {"metadata": {"name": "killed"}, "spec": spec}


class Life(Protocol):
    """A process, as subprocess.Popen has it."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        ...

    def wait(self, timeout: float) -> int:
        """Its exit code, once it has ended."""
        ...


_LATE_STEPS = 10
StartLife = Callable[[str, Sequence[str], Path], Life]
"""Module, arguments and the log that its words are added to."""


def start_interpreter(module: str, arguments: Sequence[str], log: Path) -> Life:
    """`python -m module arguments >>log 2>&1`."""
    with log.open("ab") as file:
        return subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=file, stderr=file)


@dataclass(frozen=True, slots=True)
class Killable:
    """A run whose lives are processes."""

    document: Path
    datasets: Path
    output: Path
    start_life: StartLife = start_interpreter

    def start(self) -> Life:
        """A life, from the beginning or the last checkpoint."""
        told = ["-f", str(self.document), "--output", str(self.output), "--datasets", str(self.datasets)]
        return self.start_life("sweyard_trainer.local", told, self.log)

    @property
    def log(self) -> Path:
        """What its lives said."""
        return self.output.with_suffix(".log")

    def finish(self) -> dict[str, Any]:
        """Live until the end; the summary."""
        code = self.start().wait(DEADLINE_SECONDS)
        assert code == 0, self.last_words()
        summary: dict[str, Any] = json.loads((self.output / "summary.json").read_text())
        return summary

    def end_at(self, moment: float, step_seconds: float, number: int) -> int:
        """Live until `moment` and get signal `number` there; the exit code.

        The whole part of `moment` is the steps that are done (below 0: the first life's warm-up is under way; more may
        be done, where an earlier end came late), the rest the share of a step's time after the next one began.
        """
        began, metrics = time.time(), self.output / "metrics" / "metrics.jsonl"
        step = int(moment // 1) + 1
        steps = "|".join(map(str, range(step, step + _LATE_STEPS)))
        told, sign = (self.log, rf"step ({steps}): attempts under way") if step else (metrics, '"warmup"')
        earlier_bytes = told.stat().st_size if told.exists() else 0
        life = self.start()
        while not told.exists() or not re.search(sign.encode(), told.read_bytes()[earlier_bytes:]):
            assert life.poll() is None, self.last_words()
            assert time.time() - began < DEADLINE_SECONDS, f"no {sign!r} in {told}"
            time.sleep(0.01)
        time.sleep(moment % 1 * step_seconds)
        os.kill(life.pid, number)
        return life.wait(DEADLINE_SECONDS)

    def last_words(self) -> str:
        """The end of the log."""
        return self.log.read_text()[-3_000:]

    def metrics(self) -> list[dict[str, Any]]:
        """All rows, without what depends on the clock."""
        rows = [json.loads(line) for line in (self.output / "metrics" / "metrics.jsonl").read_text().splitlines()]
        return [{name: value for name, value in row.items() if not _of_the_clock(name)} for row in rows]

    def step_seconds(self) -> float:
        """Time of the fastest step: a share of it ends before any step does."""
        rows = [json.loads(line) for line in (self.output / "metrics" / "metrics.jsonl").read_text().splitlines()]
        times = [row["time/step_seconds"] for row in rows if row["phase"] == "rl"]
        return float(min(times))

    def attempts(self) -> dict[str, list[tuple[str, list[int]]]]:
        """Attempt ids and sampled tokens of each step."""
        return {
            path.stem: [
                (attempt.attempt_id, [token for segment in attempt.segments for token in segment.token_ids.tolist()])
                for attempt in read_attempts(path)
            ]
            for path in sorted((self.output / "rollouts").glob("step-*.parquet"))
        }

    def final_weights(self) -> bytes:
        """As the last version's file has them."""
        last = max((self.output / "weights").iterdir(), key=lambda version: int(version.name))
        (file,) = last.glob("*.safetensors")
        return file.read_bytes()


def _of_the_clock(name: str) -> bool:
    return name.startswith("time") or "seconds" in name or "per_second" in name


def moments(seed: int, count: int, steps: int) -> list[float]:
    """When to kill, in steps done; from -1, where the warm-up begins, to the middle of the last step."""
    draw = random.Random(seed)
    return sorted(draw.uniform(-1, steps - 0.5) for _ in range(count))


def differences(broken: Killable, unbroken: Killable) -> list[str]:
    """What is not equal bit for bit."""
    pairs = {
        "figures": (broken.metrics(), unbroken.metrics()),
        "sampled tokens": (broken.attempts(), unbroken.attempts()),
        "final weights": (broken.final_weights(), unbroken.final_weights()),
    }
    return [what for what, (ours, theirs) in pairs.items() if ours != theirs]


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.prove.resume", description=__doc__)
    arguments.add_argument("--kills", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--output", type=Path, default=Path("runs/prove-resume"))
    chosen = arguments.parse_args()
    root = chosen.output.resolve() / f"{time.strftime('%Y%m%d-%H%M%S')}"
    root.mkdir(parents=True)
    document = root / "run.yaml"
    document.write_text(yaml.safe_dump(run_document(STEPS)))
    datasets = make_data_set(root)
    unbroken, broken = (Killable(document, datasets, root / name) for name in ("unbroken", "broken"))
    began = time.monotonic()
    unbroken.finish()
    step_seconds = unbroken.step_seconds()
    phases: Counter[str] = Counter()
    for moment in moments(chosen.seed, chosen.kills, STEPS):
        code = broken.end_at(moment, step_seconds, signal.SIGKILL)
        assert code == -signal.SIGKILL, broken.last_words()
        phases["in the warm-up" if moment < 0 else f"in step {int(moment) + 1}"] += 1
        print(f"killed after {moment:.2f} steps", flush=True)
    broken.finish()
    figures = {
        "kills": phases.total(),
        "seed": chosen.seed,
        "steps": STEPS,
        "killed": dict(phases),
        "different": differences(broken, unbroken),
        "seconds": round(time.monotonic() - began),
    }
    write_section(Section("Exact resume", "python -m benchmarks.prove resume", lines_of(figures)))
    print_figures(figures)
    assert not figures["different"], "a run that was killed is not the same run"


def lines_of(figures: dict[str, Any]) -> Sequence[str]:
    """Markdown."""
    where = ", ".join(f"{count} {phase}" for phase, count in figures["killed"].items())
    verdict = f"differ in {' and '.join(figures['different'])}" if figures["different"] else "are equal bit for bit"
    return [
        f"A strictly on-policy run of {figures['steps']} steps with a serial engine, evaluated beside every other "
        f"one, got kill -9 at {figures['kills']} random moments (seed {figures['seed']}: {where}). Losses, "
        "evaluations and all other figures that are no times, the "
        f"sampled tokens of every attempt and the final weights {verdict} with those of the same run undisturbed. "
        f"Both runs took {figures['seconds']} s."
    ]


if __name__ == "__main__":
    main()
