"""ProgressReporter: progress.json on the volume and, on a cluster, status.trainer. Never fails the run.

From its first report on it reports to the cluster again and again, until the last: by its silence the operator knows a
process that hangs. It does so in the event loop, which a step that computes in a thread or elsewhere does not hold up.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sweyard_api.training_run import MAX_SENTENCE_CHARACTERS, TrainerStatus

logger = logging.getLogger(__name__)

FILE_INTERVAL_SECONDS = 0.5
STATUS_INTERVAL_SECONDS = 10.0
REPORT_EVERY_SECONDS = 30
"""Without news."""
LAST_SECONDS = 90.0
"""For the last report, which no later one makes good."""
LAST_RETRY_SECONDS = 3.0


class StatusSink(Protocol):
    """Where the report goes beside the file."""

    def publish(self, report: dict[str, Any]) -> None:
        """Write the report; blocking. Raises OSError-like errors that are logged and tried again with the next one."""
        ...


class ProgressReporter:
    """Keeps the newest report and writes it at a bounded rate."""

    def __init__(
        self,
        storage: Path,
        initial: TrainerStatus,
        *,
        sink: StatusSink | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        report_every_seconds: float = REPORT_EVERY_SECONDS,
    ) -> None:
        self._path = storage / "progress.json"
        self._report_every_seconds = report_every_seconds
        promise = None if sink is None else math.ceil(report_every_seconds)
        self._report = initial.model_copy(update={"report_every_seconds": promise})
        self._sink = sink
        self._now = now
        self._monotonic = monotonic
        self._sleep = sleep
        self._file_written_at = float("-inf")
        self._status_written_at = float("-inf")
        self._publishing: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    @property
    def report(self) -> TrainerStatus:
        """What is known now."""
        return self._report

    def update(self, **fields: Any) -> None:
        """Change fields of the report. The percentage never goes back within a process; what is said is cut short."""
        if "progress_percentage" in fields:
            fields["progress_percentage"] = max(fields["progress_percentage"], self._report.progress_percentage)
        if "message" in fields:
            fields["message"] = fields["message"][:MAX_SENTENCE_CHARACTERS]
        self._report = TrainerStatus.model_validate(
            {**self._report.model_dump(), **fields, "updated_at": self._stamp()}
        )
        if self._monotonic() - self._file_written_at >= FILE_INTERVAL_SECONDS:
            self._write_file()
        if self._sink is None:
            return
        self._publishing = self._publishing or asyncio.create_task(self._publish_later())
        self._renewing = self._renewing or asyncio.create_task(self._renew())

    async def flush(self) -> None:
        """Write the last report everywhere; a server that is away is waited for."""
        self._write_file()
        tasks = [task for task in (self._renewing, self._publishing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        give_up_at = self._monotonic() + LAST_SECONDS
        while not await self._publish() and self._monotonic() < give_up_at:
            await self._sleep(LAST_RETRY_SECONDS)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._report_every_seconds)
            self.update()

    def _write_file(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".tmp")
        partial.write_text(self._report.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
        partial.replace(self._path)
        self._file_written_at = self._monotonic()

    async def _publish_later(self) -> None:
        wait = self._status_written_at + STATUS_INTERVAL_SECONDS - self._monotonic()
        await asyncio.sleep(max(0.0, wait))
        self._publishing = None
        await self._publish()

    async def _publish(self) -> bool:
        """Whether there is nothing to try again."""
        if self._sink is None:
            return True
        self._status_written_at = self._monotonic()
        report = self._report.model_dump(by_alias=True, exclude_none=True)
        try:
            await asyncio.to_thread(self._sink.publish, report)
        except StatusUnavailableError as error:
            logger.warning("the run's status could not be written, the run goes on: %s", error)
            return isinstance(error, StatusRefusedError)
        return True

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


class StatusUnavailableError(OSError):
    """The API server cannot take the report now."""


class StatusRefusedError(StatusUnavailableError):
    """It does not take it, and will not: the run is gone, or is not this process's to tell of."""
