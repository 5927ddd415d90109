"""Makings that share a cache take turns."""

import threading
from pathlib import Path

from sweyard_sandbox.tasks.exclusive import exclusive


def test_a_second_making_says_that_it_waits_and_begins_after_the_first(tmp_path: Path) -> None:
    order: list[str] = []
    waits = threading.Event()

    def second() -> None:
        def tell(text: str) -> None:
            order.append(text)
            waits.set()

        with exclusive(tmp_path, tell):
            order.append("second")

    thread = threading.Thread(target=second)
    with exclusive(tmp_path, order.append):
        thread.start()
        assert waits.wait(timeout=30)
        order.append("first")
    thread.join()
    assert order == [f"another making of tasks is at work in {tmp_path}; waiting for its end", "first", "second"]


def test_a_making_that_is_alone_says_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    for _ in range(2):
        with exclusive(tmp_path / "cache", told.append):
            pass
    assert told == []
