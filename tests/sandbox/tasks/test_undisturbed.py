"""What signals raise comes after a block, not within it, and whatever the block does."""

import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from sweyard_sandbox.tasks.undisturbed import undisturbed

SIGNALS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: SystemExit}


@pytest.fixture(autouse=True)
def termination_as_exit() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_for_the_end_of_the_block(number: int) -> None:
    done = []

    def work() -> None:
        with undisturbed():
            signal.raise_signal(number)
            done.append("block")

    with pytest.raises(SIGNALS[signal.Signals(number)]):
        work()
    assert done == ["block"]


@pytest.mark.parametrize("number", SIGNALS)
def test_afterwards_signals_do_what_they_did(number: int) -> None:
    with undisturbed():
        pass
    with pytest.raises(SIGNALS[signal.Signals(number)]):
        signal.raise_signal(number)


def test_a_signal_is_not_lost_with_a_block_that_fails() -> None:
    def work() -> None:
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
            raise LookupError

    with pytest.raises(KeyboardInterrupt) as raised:
        work()
    assert isinstance(raised.value.__context__, LookupError)


def test_blocks_within_blocks_wait_for_the_outermost() -> None:
    done = []

    def work() -> None:
        with undisturbed():
            with undisturbed():
                signal.raise_signal(signal.SIGINT)
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["outer"]


def test_other_threads_go_on_as_they_are() -> None:
    done = []

    def work() -> None:
        with undisturbed():
            done.append("block")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["block"]
