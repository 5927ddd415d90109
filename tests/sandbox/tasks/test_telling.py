"""Progress of a making, in a pipe and on a terminal."""

import io

from sweyard_sandbox.tasks.telling import Telling


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, seconds_per_task: float) -> str:
    clock = [0.0]
    telling = Telling(stream, lambda: clock[0])
    for count in range(1, 61):
        clock[0] += seconds_per_task
        telling(f"{count}/60 train")
    telling.end()
    return stream.getvalue()


def test_a_pipe_gets_a_line_each_ten_seconds() -> None:
    assert told(io.StringIO(), 1.0).splitlines() == [f"{count}/60 train" for count in range(10, 61, 10)]


def test_what_was_verified_before_is_replayed_without_a_word() -> None:
    assert told(io.StringIO(), 0.1) == ""


def test_a_terminal_gets_one_line_that_changes() -> None:
    text = told(Terminal(), 0.1)
    assert text.count("\r") == 60
    assert text.endswith("60/60 train\n")
