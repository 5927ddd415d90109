"""What the container runtime says, in our terms."""

import grpc
import pytest

from sweyard_operator.cache_agent.cri import classify, digest_of
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import PullFailure


def test_an_image_with_several_names_is_held_under_the_digest_of_each_repository() -> None:
    digests = ["r.test/a@sha256:1", "r.test/b@sha256:2"]
    assert [digest_of(name, digests) for name in ("r.test/b:9", "r.test/a@sha256:1", "r.test/c:1")] == [
        "sha256:2",
        "sha256:1",
        "",
    ]


@pytest.mark.parametrize(
    ("code", "details", "reason"),
    [
        (grpc.StatusCode.NOT_FOUND, "x", PullFailure.NOT_FOUND),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "x", PullFailure.TIMEOUT),
        (grpc.StatusCode.UNKNOWN, "unexpected status: 429 Too Many Requests", PullFailure.RATE_LIMITED),
        (grpc.StatusCode.UNKNOWN, "pull access denied, authorization failed", PullFailure.UNAUTHORIZED),
        (grpc.StatusCode.UNKNOWN, "write: no space left on device", PullFailure.DISK_FULL),
        (grpc.StatusCode.UNKNOWN, "net/http: timeout awaiting response headers", PullFailure.TIMEOUT),
        (grpc.StatusCode.UNKNOWN, "dial tcp: connection refused", PullFailure.REGISTRY_UNREACHABLE),
        (grpc.StatusCode.UNKNOWN, "failed commit on ref x: unexpected commit digest y", PullFailure.CORRUPT),
        (grpc.StatusCode.UNKNOWN, "failed commit on ref", PullFailure.PULL_FAILED),
    ],
    ids=["missing", "timeout", "rate-limit", "auth", "disk", "no-answer", "unreachable", "corrupt", "other"],
)
def test_the_runtimes_prose_becomes_a_type(code: grpc.StatusCode, details: str, reason: PullFailure) -> None:
    assert classify(code, details) is reason


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("busybox:1", "docker.io/library/busybox:1"),
        ("org/app:1", "docker.io/org/app:1"),
        ("host:5000/app:1", "host:5000/app:1"),
        ("localhost/app:1", "localhost/app:1"),
    ],
)
def test_references_are_compared_in_full(short: str, full: str) -> None:
    assert normalize(short) == full
