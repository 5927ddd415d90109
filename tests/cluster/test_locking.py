"""Locks between processes: held by one, and waited for with a word."""

import io
import threading
import time
from pathlib import Path

from sweyard_cluster.locking import exclusive
from sweyard_cluster.terminal import Progress


def test_lock_is_held_by_one_even_if_its_file_is_deleted(tmp_path: Path) -> None:
    lock, inside, most = tmp_path / "lock", [0], [0]

    def work() -> None:
        for _ in range(20):
            with exclusive(lock):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                inside[0] -= 1
                lock.unlink()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_who_waits_for_a_lock_says_so_and_goes_on(tmp_path: Path) -> None:
    lock, told = tmp_path / "lock", io.StringIO()
    with exclusive(lock):
        waiter = threading.Thread(target=_hold, args=(lock, Progress(told)))
        waiter.start()
        while "waits for another build to end" not in told.getvalue():
            time.sleep(0.001)
        assert "held" not in told.getvalue()
    waiter.join()
    assert told.getvalue().endswith("held\n")


def test_a_free_lock_is_taken_without_a_word(tmp_path: Path) -> None:
    told = io.StringIO()
    _hold(tmp_path / "lock", Progress(told))
    assert told.getvalue() == "held\n"


def _hold(lock: Path, progress: Progress) -> None:
    with exclusive(lock, lambda: progress.await_turn("another build")):
        progress.say("held")
