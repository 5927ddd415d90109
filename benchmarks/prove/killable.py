"""A run whose lives are processes, which signals end at chosen moments and which goes on until it is done.

Moments and patience go by what a life does, not by the clock, which tells little on a busy machine: a moment is a file
that changes, and a life may take as long as it will while its files grow.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sweyard_trainer.rollouts.reading import read_attempts

SILENT_SECONDS = 400.0
"""A life whose files have not grown for so long hangs."""
TICK_SECONDS = 0.02
_LATE_STEPS = 10
_SIGNS = ("", "rollouts/under-way.arrows", "rollouts/step-*", "rollouts/trained/*", "weights/*", "checkpoints/*")
"""What changes in the course of a step, in this order; nothing when it begins."""
_GROWING = ("metrics/metrics.jsonl", "rollouts/under-way.arrows", "weights", "checkpoints", "progress.json")


class Life(Protocol):
    """A process, as subprocess.Popen has it."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        ...

    def wait(self, timeout: float) -> int:
        """Its exit code, once it has ended."""
        ...


StartLife = Callable[[str, Sequence[str], Path], Life]
"""Module, arguments and the log that its words are added to."""


def start_interpreter(
    module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Life:
    """`python -m module arguments >>log 2>&1`; in this process's environment by default."""
    with log.open("ab") as file:
        return subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=file, stderr=file, env=environment)


@dataclass(frozen=True, slots=True)
class Killable:
    """One run."""

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
        code = self._ended(self.start())
        assert code == 0, self.last_words()
        summary: dict[str, Any] = json.loads((self.output / "summary.json").read_text())
        return summary

    def end_at(self, moment: float, number: int) -> int:
        """Live until `moment` and get signal `number` there; the exit code.

        The whole part of `moment` is the steps that are done (below 0: the first life's warm-up is under way; more may
        be done, where an earlier end came late), the rest says how far the next one is, as far as files tell.
        """
        step = int(moment // 1) + 1
        steps = "|".join(map(str, range(step, step + _LATE_STEPS)))
        told, sign = (self.log, rf"step ({steps}): attempts under way") if step else (self._metrics, '"warmup"')
        earlier_bytes = told.stat().st_size if told.exists() else 0
        life = self.start()

        def reached() -> bool:
            assert life.poll() is None, self.last_words()
            return told.exists() and bool(re.search(sign.encode(), told.read_bytes()[earlier_bytes:]))

        self._wait(reached, f"{sign!r} in {told}")
        pattern = _SIGNS[int(moment % 1 * len(_SIGNS))] if step else ""
        before = self._matching(pattern)

        def changed() -> bool:
            assert life.poll() is None, self.last_words()
            return not pattern or self._matching(pattern) != before

        self._wait(changed, f"change of {pattern}")
        os.kill(life.pid, number)
        return self._ended(life)

    def last_words(self) -> str:
        """The end of the log."""
        return self.log.read_text()[-3_000:]

    def metrics(self) -> list[dict[str, Any]]:
        """All rows, without what depends on the clock."""
        return [{name: value for name, value in row.items() if not _of_the_clock(name)} for row in self._rows()]

    def attempts(self) -> dict[str, list[tuple[str, list[int]]]]:
        """Attempt ids and sampled tokens of each step."""
        return {
            path.stem: [
                (attempt.attempt_id, [token for segment in attempt.segments for token in segment.token_ids.tolist()])
                for attempt in read_attempts(path)
            ]
            for path in self.rollout_files()
        }

    def rollout_files(self) -> list[Path]:
        """Of the steps, in their order."""
        return sorted((self.output / "rollouts").glob("step-*.parquet"))

    def final_weights(self) -> bytes:
        """As the last version's file has them."""
        versions = [path for path in (self.output / "weights").iterdir() if path.name.isdigit()]
        (file,) = max(versions, key=lambda version: int(version.name)).glob("*.safetensors")
        return file.read_bytes()

    @property
    def _metrics(self) -> Path:
        return self.output / "metrics" / "metrics.jsonl"

    def _rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._metrics.read_text().splitlines()]

    def _matching(self, pattern: str) -> dict[str, tuple[int, int] | None]:
        return {str(path): _sign(path) for path in self.output.glob(pattern)} if pattern else {}

    def _ended(self, life: Life) -> int:
        self._wait(lambda: life.poll() is not None, "end of the process")
        return life.wait(SILENT_SECONDS)

    def _wait(self, reached: Callable[[], bool], what: str) -> None:
        silent, seen = 0.0, None
        while not reached():
            time.sleep(TICK_SECONDS)
            signs = [_sign(path) for path in (self.log, *(self.output / name for name in _GROWING))]
            silent = silent + TICK_SECONDS if signs == seen else 0.0
            seen = signs
            assert silent < SILENT_SECONDS, f"no {what}, and no other sign of life: {self.last_words()}"


def _sign(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


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


def where(moments: Iterable[float]) -> str:
    """How many moments fall where, in words."""
    names = ["in the warm-up" if moment < 0 else f"in step {int(moment) + 1}" for moment in moments]
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
