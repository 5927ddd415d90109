"""ProgressReporter: progress.json on the volume and, on a cluster, status.trainer.

From its first report on it reports to the cluster again and again, until the last: by its silence the operator knows a
process that hangs. It does so in the event loop, which a step that computes in a thread or elsewhere does not hold up.
What the API server refuses is reported without all that may be refused for what it says. If it takes not even that, a
run does not begin, for it would be taken for one that hangs; one under way goes on, and its log says so.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sweyard_api.training_run import MAX_SENTENCE_CHARACTERS, TrainerStatus
from sweyard_trainer.errors import ReportRefusedError

logger = logging.getLogger(__name__)

FILE_INTERVAL_SECONDS = 0.5
STATUS_INTERVAL_SECONDS = 10.0
REPORT_EVERY_SECONDS = 30
"""Without news."""
PATIENCE_SECONDS = 90.0
"""For the last report, which no later one makes good, and for rights that are not known yet at the first."""
RETRY_SECONDS = 3.0
_SIGN_OF_LIFE = frozenset({"attempt", "step", "total_steps", "updated_at", "report_every_seconds"})
"""What is left of a report that was refused: no text that may be too long, no figure that may be none."""


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
        """Change fields of the report. The percentage never goes back within a process; what is said is cut short, and
        a figure that is no number left out."""
        if "progress_percentage" in fields:
            fields["progress_percentage"] = max(fields["progress_percentage"], self._report.progress_percentage)
        if "message" in fields:
            fields["message"] = fields["message"][:MAX_SENTENCE_CHARACTERS]
        if "metrics" in fields:
            fields["metrics"] = {name: value for name, value in fields["metrics"].items() if math.isfinite(value)}
        self._report = TrainerStatus.model_validate(
            {**self._report.model_dump(), **fields, "updated_at": self._stamp()}
        )
        if self._monotonic() - self._file_written_at >= FILE_INTERVAL_SECONDS:
            self._write_file()
        if self._sink is None:
            return
        self._publishing = self._publishing or asyncio.create_task(self._publish_later())
        self._renewing = self._renewing or asyncio.create_task(self._renew())

    async def begin(self) -> None:
        """Write the first report; a server that is away is not waited for. Raises ReportRefusedError."""
        give_up_at = self._monotonic() + PATIENCE_SECONDS
        while isinstance(error := await self._publish(), StatusRefusedError):
            if self._monotonic() >= give_up_at:
                raise ReportRefusedError(
                    f"the API server refuses what the trainer reports, so that it would be taken for one that hangs: "
                    f"{error}; give its account that right, or change the policy"
                ) from error
            await self._sleep(RETRY_SECONDS)

    async def flush(self) -> None:
        """Write the last report everywhere; a server that is away is waited for."""
        self._write_file()
        tasks = [task for task in (self._renewing, self._publishing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        give_up_at = self._monotonic() + PATIENCE_SECONDS
        while (error := await self._publish()) is not None and self._monotonic() < give_up_at:
            if isinstance(error, StatusRefusedError):
                return
            await self._sleep(RETRY_SECONDS)

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

    async def _publish(self) -> "StatusUnavailableError | None":
        """Why the report was not taken, if it was not."""
        if self._sink is None:
            return None
        self._status_written_at = self._monotonic()
        try:
            try:
                await asyncio.to_thread(self._sink.publish, self._report.model_dump(by_alias=True, exclude_none=True))
            except StatusRefusedError as error:
                logger.warning("the report is refused, a sign of life is written instead: %s", error)
                await asyncio.to_thread(self._sink.publish, self._sign_of_life(error))
        except StatusUnavailableError as error:
            logger.warning("the run's status could not be written, the run goes on: %s", error)
            return error
        return None

    def _sign_of_life(self, refused: "StatusRefusedError") -> dict[str, Any]:
        told = {"message": f"what the trainer reports is refused: {refused}"[:MAX_SENTENCE_CHARACTERS]}
        return {**self._report.model_dump(by_alias=True, exclude_none=True, include=set(_SIGN_OF_LIFE)), **told}

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")


class StatusUnavailableError(OSError):
    """The API server cannot take the report now."""


class StatusRefusedError(StatusUnavailableError):
    """It does not take it, and will not: for what it says, or as the run is gone or not this process's to tell of."""
