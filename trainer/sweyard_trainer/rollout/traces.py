"""Attempts as OpenTelemetry traces: told once an attempt has ended, by when each of its parts began and ended.

attempt: `claim`, then `work` with a `turn` for each reply (`model`, and `commands` until the next one is asked for),
then `grading`; each as often as it was tried.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweyard_trainer.rollout.observed import Interval
from sweyard_trainer.trajectory import Trajectory

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

Trace = Callable[[Trajectory, Sequence[Interval]], None]
NANOSECONDS = 1_000_000_000


def no_trace(trajectory: Trajectory, intervals: Sequence[Interval]) -> None:
    """Where nobody asked for traces."""


@dataclass(frozen=True, slots=True)
class Part:
    """An interval with those within it. Times by time.monotonic."""

    name: str
    began: float
    ended: float
    parts: tuple["Part", ...] = ()


def attempt_part(intervals: Sequence[Interval]) -> Part:
    """The attempt as a tree: pure. `intervals` as Timings has them, `total` among them."""
    (total,) = (interval for interval in intervals if interval.name == "total")
    replies = [interval for interval in intervals if interval.name == "model"]
    parts = [
        Part("work", each.began, each.ended, tuple(_turns(each, replies)))
        if each.name == "sandbox"
        else Part(each.name, each.began, each.ended)
        for each in intervals
        if each.name not in ("total", "model")
    ]
    return Part("attempt", total.began, total.ended, tuple(sorted(parts, key=lambda part: part.began)))


def _turns(work: Interval, replies: Iterable[Interval]) -> Iterable[Part]:
    within = [reply for reply in replies if work.began <= reply.began < work.ended]
    ends = [*(reply.began for reply in within[1:]), work.ended]
    for reply, end in zip(within, ends, strict=True):
        commands = Part("commands", reply.ended, end)
        yield Part("turn", reply.began, end, (Part("model", reply.began, reply.ended), commands))


class Tracer:
    """Sends attempts to a collector, from a thread of its own; what cannot be sent is logged and dropped."""

    def __init__(self, run: str, exporter: "SpanExporter", clock: Callable[[], float] = time.time) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(resource=Resource.create({"service.name": "sweyard", "sweyard.run": run}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("sweyard")
        self._clock = clock

    @classmethod
    def to(cls, endpoint: str, run: str) -> "Tracer":
        """A collector's base URL, to which OTLP is spoken over HTTP."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return cls(run, OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces"))

    def trace(self, trajectory: Trajectory, intervals: Sequence[Interval]) -> None:
        """Send one attempt that has just ended."""
        whole = attempt_part(intervals)
        to_epoch = self._clock() - whole.ended
        self._send(whole, to_epoch, None, _attributes(trajectory))

    def close(self) -> None:
        """Send what is still held."""
        self._provider.shutdown()

    def _send(self, part: Part, to_epoch: float, parent: object, attributes: dict[str, str | float]) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        context = parent if isinstance(parent, Context) else Context()
        span = self._tracer.start_span(
            part.name, context, attributes=attributes, start_time=int((part.began + to_epoch) * NANOSECONDS)
        )
        for below in part.parts:
            self._send(below, to_epoch, set_span_in_context(span, context), {})
        span.end(int((part.ended + to_epoch) * NANOSECONDS))


def _attributes(trajectory: Trajectory) -> dict[str, str | float]:
    return {
        "sweyard.attempt": trajectory.attempt_id,
        "sweyard.task": trajectory.task_id,
        "sweyard.outcome": trajectory.outcome.value,
        "sweyard.reward": trajectory.reward,
        "sweyard.infra_reason": trajectory.infra_reason,
    }
