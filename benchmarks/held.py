"""What a checkpoint keeps of the attempts that are under way: the Parquet file beside its state against JSON in it.

`python -m benchmarks.held [--attempts N] [--tokens T]`: attempts of random tokens, half sampled, under two weight
versions, with a transcript of four characters a token. Each is written to disk, synced, and read back exactly. The last
line is JSON: `attempts`, `tokens` (of each), and for `parquet` and `json` `<name>_mib`, `<name>_write_s` and
`<name>_read_s`; `size_ratio` and `write_ratio` are Parquet's over JSON's.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.gateway.wire import decode_segment, encode_segment
from sweyard_trainer.trajectory import Segment, Trajectory

Write = Callable[[Path, Sequence[Trajectory]], None]
Read = Callable[[Path], list[Trajectory]]

VOCABULARY = 151_936
CHARACTERS_PER_TOKEN = 4
TURNS = 50


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.held", description=__doc__)
    parser.add_argument("--attempts", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=50_000, help="of each attempt")
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    attempts = [make_attempt(random, number, arguments.tokens) for number in range(arguments.attempts)]
    figures: dict[str, float] = {"attempts": arguments.attempts, "tokens": arguments.tokens}
    for name, (write, read) in FORMATS.items():
        figures |= {f"{name}_{figure}": value for figure, value in measure(attempts, write, read).items()}
    figures["size_ratio"] = round(figures["parquet_mib"] / figures["json_mib"], 3)
    figures["write_ratio"] = round(figures["parquet_write_s"] / figures["json_write_s"], 3)
    print(json.dumps(figures))


def make_attempt(random: np.random.Generator, number: int, num_tokens: int) -> Trajectory:
    """Random tokens compress worse than a model's; random words about as text does."""
    sampled = np.arange(num_tokens) % (num_tokens // TURNS) >= num_tokens // (2 * TURNS)
    segment = Segment(
        random.integers(0, VOCABULARY, num_tokens, np.int32),
        sampled,
        np.where(sampled, -random.exponential(0.5, num_tokens), 0).astype(np.float32),
        np.where(sampled, np.where(np.arange(num_tokens) < num_tokens // 2, 11, 12), -1).astype(np.int32),
    )
    words = list(map(str, random.zipf(1.3, num_tokens * CHARACTERS_PER_TOKEN // (TURNS * 6)) % 100_000))
    turns = [{"role": role, "content": " ".join(random.permutation(words))} for role in ("user", "assistant") * TURNS]
    group, index = divmod(number, 8)
    return Trajectory(
        attempt_id=f"12/task-{group}/{index}",
        task_id=f"task-{group}",
        group_id=f"12/task-{group}",
        segments=(segment,),
        outcome=Outcome.UNSOLVED,
        reward=0.0,
        transcript=turns,
        timings={"total": 2_676.0},
    )


def measure(attempts: Sequence[Trajectory], write: Write, read: Read) -> dict[str, float]:
    """Seconds and MiB. Raises AssertionError if anything comes back other than it was."""
    with tempfile.TemporaryDirectory() as name:
        began = time.perf_counter()
        write(Path(name), attempts)
        sync(Path(name))
        written = time.perf_counter()
        back = read(Path(name))
        ended = time.perf_counter()
        size = sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file())
    for ours, theirs in zip(back, attempts, strict=True):
        assert list(contents(ours)) == list(contents(theirs)), theirs.attempt_id
    return {"mib": round(size / 2**20, 1), "write_s": round(written - began, 2), "read_s": round(ended - written, 2)}


def contents(attempt: Trajectory) -> Iterator[Any]:
    """Everything in it, to the bit."""
    for name in Trajectory.__slots__:
        if name != "segments":
            yield getattr(attempt, name)
    for segment in attempt.segments:
        yield from (getattr(segment, name).tobytes() for name in Segment.__slots__[:4])


def write_parquet(directory: Path, attempts: Sequence[Trajectory]) -> None:
    store = CheckpointStore(str(directory))
    store.write_held(store.begin(12), attempts)


def read_parquet(directory: Path) -> list[Trajectory]:
    return CheckpointStore(str(directory)).read_held("step-12")


def write_json(directory: Path, attempts: Sequence[Trajectory]) -> None:
    """Arrays as base64 of their bytes, which is what JSON can hold exactly at the least cost."""
    encoded = [
        {name: getattr(attempt, name) for name in Trajectory.__slots__}
        | {"segments": [encode_segment(segment) for segment in attempt.segments], "outcome": attempt.outcome.value}
        for attempt in attempts
    ]
    (directory / "state.json").write_bytes(json.dumps(encoded).encode())


def read_json(directory: Path) -> list[Trajectory]:
    return [
        Trajectory(
            **{
                **data,
                "segments": tuple(map(decode_segment, data["segments"])),
                "outcome": Outcome(data["outcome"]),
            }
        )
        for data in json.loads((directory / "state.json").read_bytes())
    ]


FORMATS: dict[str, tuple[Write, Read]] = {"parquet": (write_parquet, read_parquet), "json": (write_json, read_json)}


def sync(directory: Path) -> None:
    for path in directory.rglob("*"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


if __name__ == "__main__":
    main()
