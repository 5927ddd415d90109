"""No command runs twice, wherever its stream breaks, whatever becomes of the spool, in every shell that is here."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sandbox.runtimes.shells import SHELLS, Shells

from sweyard_sandbox.driver import wire
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.testing import OUTPUT, CuttingConnector, Point, is_run
from sweyard_sandbox.errors import CommandMayHaveRunError, FailureReason, InfrastructureError

REMOVE = 'rm -rf "$SWEYARD_SPOOL" 2>&-'
REMOVE_FILES = 'rm -f "$SWEYARD_SPOOL"/*'
DROPPED = "was not begun"


@dataclass(slots=True)
class Place:
    """A sandbox whose commands leave a line each, and the streams into it."""

    folder: Path
    shells: Shells
    connector: CuttingConnector
    client: DriverClient

    async def run(self, name: str, *, before: str = ":", after: str = ":", timeout_seconds: float = 30) -> bytes:
        """Leave a line, and run what harms the spool before or after it."""
        command = f"{before}; echo {name} >>{self.folder}/lines; {after}; echo output; echo {name}"
        result = await self.client.run(command, timeout_seconds=timeout_seconds, output_cap_bytes=1_000)
        assert (result.exit_code, result.output) == (0, OUTPUT + f"{name}\n".encode())
        return result.output

    async def settle(self) -> None:
        """Wait until all drivers have ended: what they were still to do is done."""
        await self.client.close()
        async with asyncio.timeout(30):
            for channel in self.shells.channels:
                await channel.close()
                await channel.process.wait()

    def count(self, name: str) -> int:
        """How often a command ran."""
        lines = self.folder / "lines"
        return lines.read_text().split().count(name) if lines.exists() else 0


@contextlib.asynccontextmanager
async def open_place(shell: str) -> AsyncIterator[Place]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:  # what copied output ends last
        folder = Path(name)
        shells = Shells(shell, folder)
        connector = CuttingConnector(shells, folder / "gates")
        client = DriverClient(connector, os.urandom(8).hex())
        client.link.reconnect_seconds = 10
        await client.open()
        place = Place(folder, shells, connector, client)
        yield place
        await place.settle()
        await shells.end()


@pytest.fixture(params=SHELLS)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    async with open_place(request.param) as made:
        yield made


POINTS = [pytest.param(point, False, id=point) for point in Point]
HELD = [
    pytest.param(Point.BEFORE_CLAIM, True, id="before-claim, old driver held"),
    pytest.param(Point.BEFORE_MARK, True, id="before-mark, old driver held"),
]


@pytest.mark.parametrize(("point", "hold"), POINTS + HELD)
async def test_a_command_runs_once_wherever_its_stream_breaks(place: Place, point: Point, hold: bool) -> None:
    cut = place.connector.cut_next(point, hold=hold)
    await place.run("one")
    assert cut.is_made
    cut.release()
    await place.run("two")
    await place.settle()
    assert (place.count("one"), place.count("two")) == (1, 1)
    assert place.client.counters.reconnects == 1


@pytest.mark.parametrize("removal", [REMOVE, REMOVE_FILES])
@pytest.mark.parametrize("point", [Point.IN_OUTPUT, Point.AFTER_EXIT, Point.BEFORE_MARK, Point.UNREAD])
async def test_a_command_whose_spool_is_gone_with_its_stream_may_have_run(
    place: Place, point: Point, removal: str
) -> None:
    place.connector.cut_next(point)
    with pytest.raises(CommandMayHaveRunError) as caught:
        await place.run("one", before=removal)
    assert caught.value.reason is FailureReason.EXEC_LOST
    await place.run("two")
    await place.settle()
    assert (place.count("one"), place.count("two")) == (1, 1)


@pytest.mark.parametrize("removal", [REMOVE, REMOVE_FILES])
async def test_a_held_up_driver_finds_no_claim_free_where_the_new_ones_command_removed_them(
    place: Place, removal: str
) -> None:
    cut = place.connector.cut_next(Point.BEFORE_CLAIM, hold=True)
    await place.run("one", after=removal)
    cut.release()
    await place.run("two")
    await place.settle()
    assert (place.count("one"), place.count("two")) == (1, 1)


async def test_a_held_up_driver_finds_no_claim_free_that_was_forgotten(place: Place) -> None:
    cut = place.connector.cut_next(Point.BEFORE_CLAIM, hold=True)
    await place.run("one")
    (claim,) = [name.split()[1].decode() for name in place.connector.channels[0].requests if is_run(name)]
    await place.client.link.send(wire.encode_line("forget", place.client.link.hello.ledger, claim))
    await place.run("two")  # answered behind it
    assert not (place.folder / "spool" / claim).exists()
    cut.release()
    await place.settle()
    assert (place.count("one"), place.count("two")) == (1, 1)


async def test_a_command_whose_driver_is_held_before_its_start_is_given_up_for_good() -> None:
    async def give_up(shell: str) -> None:
        async with open_place(shell) as place:
            cut = place.connector.cut_next(Point.AFTER_CLAIM, hold=True)
            with pytest.raises(InfrastructureError, match=DROPPED):
                await place.run("one")
            cut.release()
            await place.settle()
            assert place.count("one") == 0

    await asyncio.gather(*map(give_up, SHELLS))


@pytest.mark.parametrize("removal", [REMOVE, REMOVE_FILES])
async def test_a_spool_removed_between_commands_costs_nothing_while_the_stream_holds(
    place: Place, removal: str
) -> None:
    await place.run("one", after=removal)
    await place.run("two", after=removal)
    await place.run("three")
    await place.settle()
    assert [place.count(name) for name in ("one", "two", "three")] == [1, 1, 1]


async def test_what_waits_for_a_stream_is_sent_over_it_once(place: Place) -> None:
    place.connector.cut_next(Point.UNSENT)
    await place.run("one")
    place.shells.refuse = 1
    await place.connector.channels[-1].close()
    while place.client.link.is_ready:
        await asyncio.sleep(0)
    await place.run("two")
    assert [sum(map(is_run, channel.requests)) for channel in place.connector.channels] == [1, 1, 1]


@pytest.mark.parametrize("shell", SHELLS)
async def test_of_drivers_that_read_one_request_one_runs_it(shell: str) -> None:
    async with open_place(shell) as place:
        ledger = place.client.link.hello.ledger
        streams = [await place.shells.connect() for _ in range(6)]
        for number, stream in enumerate(streams):
            await stream.send(wire.encode_driver("other", {}, stream=f"other.{number}", ledger=ledger))
        command = f"echo one >>{place.folder}/lines"
        for stream in streams:
            await stream.send(wire.encode_run("x0000001", ledger, cap_bytes=1, prelude=":", command=command))
        await place.settle()
        assert place.count("one") == 1


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a random sequence, and what happens to it."""

    point: Point | None
    hold_for: int
    """Commands after which a driver held before its claim goes on."""
    before: str
    after: str


STEPS = st.builds(
    Step,
    st.none() | st.sampled_from(Point),
    st.integers(0, 2),
    st.sampled_from([":", ":", REMOVE, REMOVE_FILES]),
    st.sampled_from([":", ":", REMOVE, REMOVE_FILES]),
)


async def take_steps(shell: str, steps: list[Step]) -> None:
    async with open_place(shell) as place:
        answered, held = set(), []
        for number, step in enumerate(steps):
            if step.point is not None:
                hold = step.point is Point.BEFORE_CLAIM and step.hold_for > 0
                held.append((number + step.hold_for, place.connector.cut_next(step.point, hold=hold)))
            with contextlib.suppress(InfrastructureError):
                await place.run(f"c{number}", before=step.before, after=step.after)
                answered.add(number)
            for until, cut in held:
                if until <= number:
                    cut.release()
        for _, cut in held:
            cut.release()
        await place.settle()
        counts = [place.count(f"c{number}") for number in range(len(steps))]
        assert all(count <= 1 for count in counts), counts
        assert all(counts[number] == 1 for number in answered), (counts, answered)


PROPERTY = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@pytest.mark.parametrize("shell", SHELLS)
@given(steps=st.lists(STEPS, min_size=1, max_size=4))
@settings(max_examples=6, **PROPERTY)  # type: ignore[arg-type]
def test_random_breaks_run_no_command_twice(shell: str, steps: list[Step]) -> None:
    asyncio.run(take_steps(shell, steps))


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@given(steps=st.lists(STEPS, min_size=2, max_size=8))
@settings(max_examples=100, **PROPERTY)  # type: ignore[arg-type]
def test_many_random_breaks_run_no_command_twice(shell: str, steps: list[Step]) -> None:
    asyncio.run(take_steps(shell, steps))
