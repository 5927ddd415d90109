import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweyard_trainer.rollouts.files import UNDER_WAY
from sweyard_trainer.rollouts.journal import Journal
from sweyard_trainer.rollouts.reading import read_attempts
from sweyard_trainer.trajectory import Trajectory

MakeAttempt = Callable[..., Trajectory]
WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.rollouts.journal import Journal
from sweyard_trainer.trajectory import Trajectory

journal = Journal(Path(sys.argv[1]) / "under-way")
for name in "ab":
    journal.write(Trajectory(f"1/{name}/0", name, f"1/{name}", (), Outcome.SOLVED, 1.0))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "rollouts" / UNDER_WAY


def ids(place: Path) -> list[str]:
    return [attempt.attempt_id for attempt in read_attempts(place.with_suffix(".arrows"))]


def test_what_was_written_survives_the_death_of_its_writer(place: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(place.parent)])
    assert done.returncode == -signal.SIGKILL
    assert ids(place) == ["1/a/0", "1/b/0"]


def test_of_a_journal_cut_anywhere_all_whole_attempts_are_read(place: Path, make_attempt: MakeAttempt) -> None:
    path = place.with_suffix(".arrows")
    journal, ends = Journal(place), []
    for number in range(3):
        journal.write(make_attempt(f"1/t/{number}"))
        ends.append(path.stat().st_size)
    journal.close()
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 97), *(end + gap for end in ends for gap in (-1, 0, 1))]:
        path.write_bytes(whole[:size])
        assert len(read_attempts(path)) == sum(end <= size for end in ends)


def test_what_is_sealed_leaves_it_and_the_rest_stays(place: Path, make_attempt: MakeAttempt) -> None:
    a, b, c, d = (make_attempt(f"1/{name}/0") for name in "abcd")
    journal = Journal(place)
    for attempt in (a, b, c):
        journal.write(attempt)
    journal.forget([a, c])
    assert ids(place) == ["1/b/0"]
    journal.write(d)
    assert ids(place) == ["1/b/0", "1/d/0"]
    journal.forget([b, d])
    assert os.listdir(place.parent) == []
    journal.write(a)
    assert ids(place) == ["1/a/0"]
    journal.close()


def test_a_life_begins_with_what_its_checkpoint_knows(place: Path, make_attempt: MakeAttempt) -> None:
    known, lost, fresh = (make_attempt(f"1/{name}/0") for name in ("known", "lost", "fresh"))
    Journal(place, [known, lost]).close()
    journal = Journal(place, [known])
    journal.write(fresh)
    journal.close()
    assert ids(place) == ["1/known/0", "1/fresh/0"]
    assert os.listdir(place.parent) == [f"{UNDER_WAY}.arrows"]


def test_nothing_is_there_before_the_first_attempt_has_ended(place: Path) -> None:
    Journal(place).close()
    assert not place.parent.exists()
