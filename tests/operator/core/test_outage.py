"""An API server that fails is told in a line when it begins, one a minute, and one at its end, whoever asks it."""

import asyncio
import random

import pytest

from sweyard_operator.errors import (
    ConflictError,
    ForbiddenError,
    ServerError,
    StreamDeadError,
    TooManyRequestsError,
    UnreachableError,
    log_level,
)
from sweyard_operator.outage import Outage
from sweyard_operator.registry import build_controllers
from sweyard_operator.resources import POD_DISRUPTION_BUDGETS
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.lies import Lies
from sweyard_operator.testing.operator_process import OperatorProcess
from sweyard_operator.testing.virtual_time import run_in_virtual_time


@pytest.mark.parametrize(
    ("events", "told"),
    [
        pytest.param("+0 +100", [], id="all is well"),
        pytest.param("-0 -1 -2 +10", ["fails: x", "again, after 3 failures in 2 s"], id="short"),
        pytest.param("-0 -59 -60 -61", ["fails: x", "still fails, 3 failures in 60 s, the last: x"], id="a minute"),
        pytest.param("-0 +1 -2 +3 -4 +8", ["fails: x"], id="replies among failures"),
        pytest.param("-0 +5 -6 +11", ["fails: x", "again, after 1 failures in 0 s"] * 2, id="two outages"),
    ],
)
def test_there_is_one_line_for_many_failures(events: str, told: list[str]) -> None:
    outage = Outage()
    notices = [
        outage.failed(float(event[1:]), "x") if event[0] == "-" else outage.answered(float(event[1:]))
        for event in events.split()
    ]
    lines = [notice.message for notice in notices if notice is not None]
    assert len(lines) == len(told)
    assert all(line.endswith(end) for line, end in zip(lines, told, strict=True)), lines


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (UnreachableError("no route"), "DEBUG"),
        (ServerError(500, "InternalError", "etcd"), "DEBUG"),
        (TooManyRequestsError(429, "TooManyRequests", "later"), "DEBUG"),
        (ForbiddenError(403, "Forbidden", "rbac"), "WARNING"),
        (ConflictError(409, "Conflict", "changed"), "WARNING"),
        (StreamDeadError("silent"), "WARNING"),
        (KeyError("spec"), "WARNING"),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, Exception) else case,
)
def test_only_what_fails_for_everybody_is_left_to_the_outages_line(error: Exception, level: str) -> None:
    assert log_level(error) == {"DEBUG": 10, "WARNING": 30}[level]


@pytest.mark.parametrize(
    "trouble", [{"is_down": True}, {"error_rate": 1.0}, {"throttle_rate": 1.0}], ids=lambda lies: next(iter(lies))
)
def test_a_whole_operator_says_a_line_a_minute_of_an_outage(
    trouble: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        api = FakeApiServer(Lies(random.Random(3)))
        process = OperatorProcess(api, build_controllers)
        operator = await process.start()
        await operator.caches.wait_synced()
        for name, value in trouble.items():
            setattr(api.lies, name, value)
        await asyncio.sleep(300)
        api.lies.stop()
        await asyncio.sleep(60)
        await process.kill()

    with caplog.at_level("INFO", logger="sweyard_operator"):
        run_in_virtual_time(main())
    lines = [record.getMessage() for record in caplog.records]
    kinds = ["still" if "still fails" in line else "begins" if "fails: " in line else line[:28] for line in lines]
    assert kinds[0] == "begins"
    assert kinds[-1] == "the API server answers again"
    assert kinds[1:-1] in (["still"] * 3, ["still"] * 4, ["still"] * 5)


def test_one_kind_that_is_refused_is_still_told_by_name(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        api = FakeApiServer(Lies(random.Random(3), unserved=frozenset({POD_DISRUPTION_BUDGETS.plural})))
        process = OperatorProcess(api, build_controllers)
        await process.start()
        await asyncio.sleep(5)
        await process.kill()

    run_in_virtual_time(main())
    assert any("cannot watch poddisruptionbudgets" in record.getMessage() for record in caplog.records)
