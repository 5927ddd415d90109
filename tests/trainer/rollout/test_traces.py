"""Traces of attempts: which parts they have, and what a collector gets."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.rollout.observed import Interval
from sweyard_trainer.rollout.traces import NANOSECONDS, Part, Tracer, attempt_part
from sweyard_trainer.trajectory import Trajectory

INTERVALS = [
    Interval("claim", 0, 2),
    Interval("model", 3, 5),
    Interval("model", 6, 9),
    Interval("sandbox", 2, 10),
    Interval("grading", 10, 14),
    Interval("total", 0, 15),
]


def shown(part: Part) -> tuple[object, ...]:
    return (part.name, part.began, part.ended, *map(shown, part.parts))


def test_a_turn_is_a_reply_and_what_is_done_until_the_next_one() -> None:
    turns = (
        ("turn", 3, 6, ("model", 3, 5), ("commands", 5, 6)),
        ("turn", 6, 10, ("model", 6, 9), ("commands", 9, 10)),
    )
    assert shown(attempt_part(INTERVALS)) == (
        *("attempt", 0, 15),
        ("claim", 0, 2),
        ("work", 2, 10, *turns),
        ("grading", 10, 14),
    )


def test_each_try_is_a_part_of_its_own_with_the_turns_of_its_time() -> None:
    tries = [Interval("sandbox", 0, 4), Interval("model", 1, 2), Interval("sandbox", 5, 9), Interval("model", 6, 7)]
    first, second = attempt_part([*tries, Interval("total", 0, 9)]).parts
    assert [turn.began for turn in first.parts] == [1]
    assert [turn.began for turn in second.parts] == [6]


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """An OTLP endpoint, and what it got."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            got.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()
        thread.join()


def test_a_collector_gets_an_attempt_as_one_trace(collector: tuple[str, list[ExportTraceServiceRequest]]) -> None:
    address, got = collector
    tracer = Tracer.to(address, "tiny")
    tracer.trace(Trajectory("1/t/0", "t", "1/t", (), Outcome.SOLVED, 1.0), INTERVALS)
    tracer.close()

    (resource,) = (resource for request in got for resource in request.resource_spans)
    spans = [span for scope in resource.scope_spans for span in scope.spans]
    (attempt,) = (span for span in spans if span.name == "attempt")
    assert sorted(span.name for span in spans) == sorted(
        ["attempt", "claim", "work", "turn", "turn", "model", "model", "commands", "commands", "grading"]
    )
    assert len({span.trace_id for span in spans}) == 1
    assert attempt.end_time_unix_nano - attempt.start_time_unix_nano == pytest.approx(15 * NANOSECONDS, abs=1e6)
    assert {each.key: each.value.string_value for each in attempt.attributes}["sweyard.outcome"] == "solved"
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["sweyard.run"] == "tiny"
