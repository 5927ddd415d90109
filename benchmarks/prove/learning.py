"""Does the demo learn? Three seeds, and for each a control whose rewards are shuffled.

`python -m benchmarks.prove.learning [--seeds 0 1 2] [--output DIR]`: held-out tasks (other functions of the packages
that are trained on) and unseen ones (another package), several attempts at each, before and after reinforcement
learning. A run that is complete in DIR is not repeated. The last line is JSON.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.prove.bootstrap import Difference, paired_difference
from benchmarks.prove.report import Section, write_section

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.rollouts.files import evaluation_label, find_files
from sweyard_trainer.rollouts.reading import read_columns

EXAMPLE = Path("examples/tiny/trainingrun.yaml")
ATTEMPTS = 5
"""At each task: 40 held-out tasks make 200 attempts."""
SOURCES = ("heldout", "unseen")
STAGES = ("untrained", "warmed-up", "final")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prove.learning", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output", type=Path, default=Path("runs/prove-learning"))
    arguments = parser.parse_args()
    began = time.monotonic()
    runs = {
        (seed, shuffled): run_once(arguments.output, seed, shuffled=shuffled)
        for seed in arguments.seeds
        for shuffled in (False, True)
    }
    figures = {
        "seeds": arguments.seeds,
        "attempts_per_task": ATTEMPTS,
        "runs": {name_of(*key): solved_by_stage(path) for key, path in runs.items()},
        "rl": {source: asdict(gain_of(runs, source, shuffled=False)) for source in SOURCES},
        "control": {source: asdict(gain_of(runs, source, shuffled=True)) for source in SOURCES},
        "seconds": round(time.monotonic() - began),
    }
    write_section(Section("Learning", "python -m benchmarks.prove.learning", table(figures)))
    print(json.dumps(figures))


def name_of(seed: int, shuffled: bool) -> str:
    return f"seed-{seed}{'-shuffled' if shuffled else ''}"


def run_once(output: Path, seed: int, *, shuffled: bool) -> Path:
    """Directory of a complete run."""
    directory = output / name_of(seed, shuffled)
    if (directory / "summary.json").exists():
        print(f"{directory.name}: complete", flush=True)
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.prove.learning_run", "-f", str(EXAMPLE), "--seed", str(seed)]
    command += ["--attempts", str(ATTEMPTS), "--output", str(directory), *(["--shuffled"] if shuffled else [])]
    with (directory / "run.log").open("a") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)
    print(f"{directory.name}: {time.monotonic() - began:.0f} s, {solved_by_stage(directory)}", flush=True)
    return directory


def solved_by_stage(directory: Path) -> dict[str, dict[str, str]]:
    """`solved/attempts` by source and stage, of graded attempts."""
    evaluations = json.loads((directory / "summary.json").read_text())["evaluations"]
    return {
        source: {
            stage: f"{result['solved']}/{result['attempts']}"
            for stage in STAGES
            for result in evaluations[stage]
            if result["source"] == source
        }
        for source in SOURCES
    }


def gain_of(runs: Mapping[tuple[int, bool], Path], source: str, *, shuffled: bool) -> Difference:
    """From warmed-up to final, each task with all its attempts in all seeds: seeds share tasks, so tasks are drawn."""
    before, after = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for (_, is_control), directory in runs.items():
        if is_control != shuffled:
            continue
        first, last = (solved_fractions(directory, stage, source) for stage in ("warmed-up", "final"))
        for task in first.keys() & last.keys():
            before[task].append(first[task])
            after[task].append(last[task])
    tasks = sorted(before)
    return paired_difference([fmean(before[task]) for task in tasks], [fmean(after[task]) for task in tasks], seed=0)


def solved_fractions(directory: Path, stage: str, source: str) -> dict[str, float]:
    """By task; infrastructure failures are outside of it."""
    outcomes: dict[str, list[bool]] = defaultdict(list)
    file = find_files(directory / "rollouts")[evaluation_label(stage, source)]
    for row in read_columns(file, ["task_id", "outcome"]).to_pylist():
        outcome = Outcome(row["outcome"])
        if not outcome.is_infrastructure:
            outcomes[row["task_id"]].append(outcome is Outcome.SOLVED)
    return {task: sum(solved) / len(solved) for task, solved in outcomes.items()}


def table(figures: Mapping[str, Any]) -> Iterable[str]:
    """Markdown."""
    yield f"Seeds {figures['seeds']}, {ATTEMPTS} attempts at each task, solved / graded attempts:"
    yield ""
    yield "| run | source | " + " | ".join(STAGES) + " |"
    yield "|---|---|---|---|---|"
    for run, sources in figures["runs"].items():
        for source, stages in sources.items():
            yield f"| {run} | {source} | " + " | ".join(stages[stage] for stage in STAGES) + " |"
    yield ""
    yield "Gain of reinforcement learning over the warm-up, paired bootstrap over tasks, 95 % interval:"
    yield ""
    yield "| rewards | source | before | after | gain | interval |"
    yield "|---|---|---|---|---|---|"
    for label, key in (("real", "rl"), ("shuffled (control)", "control")):
        for source, d in figures[key].items():
            gain, interval = d["after"] - d["before"], f"{d['low']:+.3f} to {d['high']:+.3f}"
            yield f"| {label} | {source} | {d['before']:.3f} | {d['after']:.3f} | {gain:+.3f} | {interval} |"


if __name__ == "__main__":
    main()
