"""A run that is killed twenty times ends as if undisturbed: `python -m benchmarks.prove.resume [--kills 20]`.

A tiny model learns strictly on-policy from a serial engine (one attempt at a time, seeds by counter), first
undisturbed, then in lives that kill -9 ends at seeded random moments: in rollouts, in updates, in weight syncs, while
checkpoints are written. Losses, sampled tokens and final weights must be equal bit for bit. The last line is JSON.
"""

import argparse
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from benchmarks.figures import print_figures
from benchmarks.prove.killable import Killable, differences, moments, where
from benchmarks.prove.report import Section, write_section

from sweyard_sandbox.tasks.make import Options, Quotas
from sweyard_sandbox.tasks.making import Making, run

STEPS = 8
PATIENT_SECONDS = 7_200
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
    """One attempt at a time, and no limit that a busy machine could meet: then nothing depends on timing."""
    spec: dict[str, Any] = {
        "preset": "tiny",
        "steps": steps,
        "model": {"scratch": {"layers": 2, "hiddenSize": 64, "vocabularySize": 400}},
        "tasks": {
            "train": {"dataset": "gauge", "split": "train"},
            "eval": [{"dataset": "gauge", "split": "heldout", "name": "heldout"}],
        },
        "rollout": {"groupsPerStep": 2, "groupSize": 2, "maxConcurrent": 1, "maxTokensPerTurn": 24},
        "agent": {"timeoutSeconds": PATIENT_SECONDS, "stepTimeoutSeconds": PATIENT_SECONDS},
        "sandboxes": {"replicas": 1},
        "warmup": {"steps": 20, "batchSize": 8},
        "reward": {"verifyTasks": False, "timeoutSeconds": PATIENT_SECONDS},
        "evaluation": {"everySteps": 2},
        "checkpoint": {"everySteps": 1},
    }
    return {"metadata": {"name": "killed"}, "spec": spec}


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
    say(began, "the run undisturbed")
    unbroken.finish()
    planned = moments(chosen.seed, chosen.kills, STEPS)
    say(began, f"the same with {chosen.kills} kills")
    for number, moment in enumerate(planned, 1):
        code = broken.end_at(moment, signal.SIGKILL)
        assert code == -signal.SIGKILL, broken.last_words()
        say(began, f"kill {number} of {chosen.kills}: {moment:.2f} steps")
    say(began, "from there to its end")
    broken.finish()
    figures = {
        "kills": len(planned),
        "seed": chosen.seed,
        "steps": STEPS,
        "killed": where(planned),
        "different": differences(broken, unbroken),
        "seconds": round(time.monotonic() - began),
    }
    write_section(Section("Exact resume", "python -m benchmarks.prove resume", lines_of(figures)))
    print_figures(figures)
    assert not figures["different"], "a run that was killed is not the same run"


def say(began: float, what: str) -> None:
    """Where it is."""
    print(f"{time.monotonic() - began:6.0f} s: {what}", flush=True)


def lines_of(figures: dict[str, Any]) -> Sequence[str]:
    """Markdown."""
    verdict = f"differ in {' and '.join(figures['different'])}" if figures["different"] else "are equal bit for bit"
    return [
        f"A strictly on-policy run of {figures['steps']} steps with a serial engine, evaluated beside every other "
        f"one, got kill -9 at {figures['kills']} random moments (seed {figures['seed']}: {figures['killed']}). Losses, "
        "evaluations and all other figures that are no times, the "
        f"sampled tokens of every attempt and the final weights {verdict} with those of the same run undisturbed. "
        f"Both runs took {figures['seconds']} s."
    ]


if __name__ == "__main__":
    main()
