"""What the container runtime says, in our terms."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from sweyard_operator.cache_agent import cri_pb2, images_pb2
from sweyard_operator.cache_agent.cri import CriRuntime, classify, digest_of
from sweyard_operator.cache_agent.image_names import normalize
from sweyard_operator.cache_agent.protocol import PullFailure
from sweyard_operator.cache_agent.pull_reasons import explain
from sweyard_operator.cache_agent.registry_auth import RegistryAuth


class Pulls(grpc.GenericRpcHandler):
    """A runtime that keeps what it is asked to pull."""

    def __init__(self) -> None:
        self.requests: list[cri_pb2.PullImageRequest] = []

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        async def pull(request: cri_pb2.PullImageRequest, context: object) -> cri_pb2.PullImageResponse:
            self.requests.append(request)
            return cri_pb2.PullImageResponse()

        if details.method != "/runtime.v1.ImageService/PullImage":
            return None  # not implemented
        return grpc.unary_unary_rpc_method_handler(
            pull,
            request_deserializer=cri_pb2.PullImageRequest.FromString,
            response_serializer=cri_pb2.PullImageResponse.SerializeToString,
        )


@asynccontextmanager
async def serving(handler: grpc.GenericRpcHandler, directory: Path) -> AsyncIterator[CriRuntime]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix://{directory}/cri.sock")
    await server.start()
    runtime = CriRuntime.connect(f"{directory}/cri.sock")
    try:
        yield runtime
    finally:
        await runtime.close()
        await server.stop(None)


async def test_a_password_goes_to_the_runtime_as_kubelets_send_it(tmp_path: Path) -> None:
    pulls = Pulls()
    async with serving(pulls, tmp_path) as runtime:
        await runtime.pull("10.0.0.1:5000/a:1", RegistryAuth("me", "secret"), timeout_seconds=5.0)
        await runtime.pull("10.0.0.1:5000/b:1", None, timeout_seconds=5.0)
        await runtime.pull("r.test/c:1", RegistryAuth("", "", identity_token="token"), timeout_seconds=5.0)
    told = [
        (one.image.image[-3:], one.auth.username, one.auth.password, one.auth.identity_token) for one in pulls.requests
    ]
    assert told == [("a:1", "me", "secret", ""), ("b:1", "", "", ""), ("c:1", "", "", "token")]
    assert pulls.requests[0].auth.server_address == "", "containerd drops a password that has the address of another"


class Marks(grpc.GenericRpcHandler):
    """containerd's service of images, with one image; it ends itself over an update that names no target."""

    def __init__(self) -> None:
        target = images_pb2.Descriptor(media_type="m", digest="sha256:1", size=7)
        self.image = images_pb2.Image(name="docker.io/library/a:1", target=target)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        assert dict(details.invocation_metadata)["containerd-namespace"] == "k8s.io"

        async def find(request: images_pb2.ListImagesRequest, context: object) -> images_pb2.ListImagesResponse:
            matching = {
                'name=="docker.io/library/a:1"': True,
                'labels."sweyard.dev/pulled-for"': bool(self.image.labels),
            }
            is_meant = all(matching.get(text, False) for text in request.filters)
            return images_pb2.ListImagesResponse(images=[self.image] if is_meant else [])

        async def update(request: images_pb2.UpdateImageRequest, context: object) -> images_pb2.UpdateImageResponse:
            assert request.image.target == self.image.target
            assert list(request.update_mask.paths) == ["labels.sweyard.dev/pulled-for"]
            self.image = request.image
            return images_pb2.UpdateImageResponse(image=self.image)

        method = details.method.removeprefix("/containerd.services.images.v1.Images/")
        behaviour, request = {
            "List": (find, images_pb2.ListImagesRequest),
            "Update": (update, images_pb2.UpdateImageRequest),
        }[method]
        return grpc.unary_unary_rpc_method_handler(
            behaviour,
            request_deserializer=request.FromString,
            response_serializer=lambda reply: reply.SerializeToString(),
        )


async def test_an_image_is_marked_with_the_cache_that_it_was_pulled_for(tmp_path: Path) -> None:
    async with serving(Marks(), tmp_path) as runtime:
        assert await runtime.marks() == {}
        for keeper in ("team/one", "team/two"):
            await runtime.mark("a:1", keeper)
            assert await runtime.marks() == {"docker.io/library/a:1": keeper}
        await runtime.mark("gone:1", "team/one")


async def test_a_runtime_that_keeps_no_marks_has_none(tmp_path: Path) -> None:
    async with serving(Pulls(), tmp_path) as runtime:
        await runtime.mark("a:1", "team/one")
        assert await runtime.marks() == {}


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
        (grpc.StatusCode.NOT_FOUND, "rejecting 62914614 byte manifest for r.test/a:1: not found", PullFailure.CORRUPT),
        (grpc.StatusCode.UNKNOWN, "children: invalid desc sha256:4f: json: cannot unmarshal", PullFailure.CORRUPT),
        (grpc.StatusCode.UNKNOWN, 'Head "/v2/": stopped after 10 redirects', PullFailure.REGISTRY_UNREACHABLE),
        (
            grpc.StatusCode.UNKNOWN,
            "failed to do request: tls: failed to verify certificate: x509: certificate signed by unknown authority",
            PullFailure.CERTIFICATE_UNKNOWN,
        ),
        (grpc.StatusCode.UNKNOWN, "http: server gave HTTP response to HTTPS client", PullFailure.PLAIN_HTTP),
        (
            grpc.StatusCode.UNKNOWN,
            "failed to pull r.test/django-11429:404: unexpected status from GET request to https://r.test/v2/geofence/"
            "blobs/sha256:401: 503 Service Unavailable",
            PullFailure.REGISTRY_UNREACHABLE,
        ),
        (grpc.StatusCode.UNKNOWN, "failed to pull r.test/geofence-429:401: what is this", PullFailure.PULL_FAILED),
    ],
    ids=[
        *("missing", "timeout", "rate-limit", "auth", "disk", "no-answer", "unreachable", "corrupt", "other"),
        *("huge-manifest", "no-manifest", "redirects"),
        *("certificate", "plain-http", "numbers-in-a-name-and-a-status", "numbers-in-a-name"),
    ],
)
def test_the_runtimes_prose_becomes_a_type(code: grpc.StatusCode, details: str, reason: PullFailure) -> None:
    assert classify(code, details) is reason


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            PullFailure.CERTIFICATE_UNKNOWN,
            "put the CA that signed it on every node and name it in /etc/containerd/certs.d/",
        ),
        (PullFailure.PLAIN_HTTP, "speaks plain HTTP: tell the container runtime of every node so in"),
    ],
)
def test_what_only_the_nodes_owner_can_mend_is_told_with_how(reason: PullFailure, words: str) -> None:
    told = explain("r.test:5000/a:1", reason, "x509: unknown")
    assert words in told
    assert "r.test:5000" in told
    assert told.endswith("; x509: unknown")
    assert explain("r.test:5000/a:1", PullFailure.NOT_FOUND, "no such tag") == "no such tag"


def test_of_long_words_the_beginning_and_the_cause_are_left() -> None:
    words = f"failed to pull r.test/a:1: {'wrapped: ' * 100}unknown authority"
    told = explain("r.test/a:1", PullFailure.PULL_FAILED, words)
    assert len(told) == 400
    assert told.startswith("failed to pull r.test/a:1: ")
    assert told.endswith("unknown authority")


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
