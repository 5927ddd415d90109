"""A run with concurrent vLLM that is killed twenty times loses nothing: `python -m benchmarks.prove.lineage`.

Several attempts at once from a real vLLM, which outlives the trainer's lives, and rollouts that go on while a step is
trained. Which tokens are sampled depends on timing then. What must not: every step is there once, every attempt once,
no task is drawn again before all others, and each token is of a weight version that its step allows. The last line is
JSON.
"""

import argparse
import functools
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from benchmarks.figures import print_figures
from benchmarks.prove.killable import Killable, moments, start_interpreter, where
from benchmarks.prove.report import Section, write_section
from benchmarks.prove.resume import make_data_set, run_document, say
from benchmarks.vllm_server import running_vllm

from sweyard_api.resolve import resolve
from sweyard_trainer.prepare import prepare_model
from sweyard_trainer.rollouts.reading import read_attempts
from sweyard_trainer.trajectory import Trajectory

STEPS = 8
MAX_STALENESS = 1
CONCURRENT = 6


def concurrent_document(steps: int) -> dict[str, Any]:
    """The run of the proof of exact resuming, but with concurrent attempts that may be stale."""
    document = run_document(steps)
    spec = document["spec"]
    spec["rollout"] |= {"maxConcurrent": CONCURRENT, "maxStaleness": MAX_STALENESS}
    spec["sandboxes"] = {"replicas": CONCURRENT}
    return document


def breaches(steps: Sequence[int], attempts: Mapping[int, Sequence[Trajectory]], num_steps: int) -> list[str]:
    """What no undisturbed run would have, in sentences; `steps` as metrics tell them, `attempts` by their step.

    The warm-up makes version 1, so that step N is trained from weights of version N.
    """
    found = []
    if list(steps) != list(range(1, num_steps + 1)) or sorted(attempts) != sorted(steps):
        found.append(f"metrics are of the steps {list(steps)}, rollouts of {sorted(attempts)}")
    counts = Counter(attempt.attempt_id for own in attempts.values() for attempt in own)
    if doubled := sorted(name for name, count in counts.items() if count > 1):
        found.append(f"attempts are there twice: {doubled}")
    groups = {(attempt.group_id, attempt.task_id) for own in attempts.values() for attempt in own}
    drawn = Counter(task for _, task in groups)
    if drawn and max(drawn.values()) - min(drawn.values()) > 1:
        found.append(f"tasks were drawn {dict(drawn)} times")
    for step, own in sorted(attempts.items()):
        versions = {int(version) for attempt in own for version in _versions(attempt)}
        if wrong := versions - set(range(max(1, step - MAX_STALENESS), step + 1)):
            found.append(f"step {step} has tokens of the versions {sorted(wrong)}")
    return found


def _versions(attempt: Trajectory) -> set[int]:
    return {int(version) for part in attempt.segments for version in part.weight_versions[part.loss_mask]}


def main() -> None:
    """Run, write docs/performance.md, print."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.prove.lineage", description=__doc__)
    arguments.add_argument("--kills", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--output", type=Path, default=Path("runs/prove-lineage"))
    chosen = arguments.parse_args()
    root = chosen.output.resolve() / f"{time.strftime('%Y%m%d-%H%M%S')}"
    root.mkdir(parents=True)
    began = time.monotonic()
    document, datasets, output = concurrent_document(STEPS), make_data_set(root), root / "run"
    (root / "run.yaml").write_text(yaml.safe_dump(document))
    spec = resolve(document["spec"])
    model = prepare_model(spec, output, [datasets])
    planned = moments(chosen.seed, chosen.kills, STEPS)
    say(began, "vLLM starts")
    with running_vllm(spec, model, root / "vllm.log") as url:
        start_life = functools.partial(start_interpreter, environment={**os.environ, "SWEYARD_ENGINE_URLS": url})
        run = Killable(root / "run.yaml", datasets, output, start_life)
        for number, moment in enumerate(planned, 1):
            assert run.end_at(moment, signal.SIGKILL) == -signal.SIGKILL, run.last_words()
            say(began, f"kill {number} of {chosen.kills}: {moment:.2f} steps")
        summary = run.finish()
    steps = [row["step"] for row in run.metrics() if row["phase"] == "rl"]
    attempts = {int(path.stem.removeprefix("step-")): read_attempts(path) for path in run.rollout_files()}
    found = breaches(steps, attempts, STEPS)
    if summary["weight_version"] != STEPS + 1:
        found.append(f"the last version is {summary['weight_version']}")
    figures = {
        "kills": len(planned),
        "seed": chosen.seed,
        "steps": STEPS,
        "killed": where(planned),
        "attempts": sum(map(len, attempts.values())),
        "breaches": found,
        "seconds": round(time.monotonic() - began),
    }
    write_section(Section("Lineage", "python -m benchmarks.prove lineage", lines_of(figures)))
    print_figures(figures)
    assert not found, "a run that was killed has what no undisturbed one has"


def lines_of(figures: Mapping[str, Any]) -> Sequence[str]:
    """Markdown."""
    verdict = "; ".join(figures["breaches"]) or "none was lost or doubled"
    return [
        f"A run of {figures['steps']} steps, {CONCURRENT} attempts at once from a real vLLM, rollouts going on while a "
        f"step is trained (`maxStaleness` {MAX_STALENESS}), got kill -9 at {figures['kills']} random moments (seed "
        f"{figures['seed']}: {figures['killed']}). Of its steps, its {figures['attempts']} attempts and the draws of "
        f"its tasks {verdict}, and each token is of a weight version that its step allows. All of it took "
        f"{figures['seconds']} s."
    ]


if __name__ == "__main__":
    main()
