"""Images are copied by the registries' own protocol, whole or not at all, however the registries behave."""

import base64
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from sweyard_cli.cache.docker_logins import DockerLogins
from sweyard_cli.cache.image_copier import ImageCopier
from sweyard_cli.cache.mirror import CopyError, mirror_images
from sweyard_cli.cache.registry_client import RegistryClient
from sweyard_cli.errors import UserError
from sweyard_operator.cache_agent.registry_auth import RegistryAuth

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class FakeRegistry:
    """Blobs and manifests by repository; `lies` are what becomes of the next requests of a method and path's end."""

    address: str = ""
    blobs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    manifests: dict[str, dict[str, tuple[str, bytes]]] = field(default_factory=dict)
    lies: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    password: str = ""
    seen: Counter[str] = field(default_factory=Counter)

    def lie(self, method: str, path: str) -> str:
        for (of_method, end), waiting in self.lies.items():
            if of_method == method and path.endswith(end) and waiting:
                return waiting.pop(0)
        return ""

    def push(self, repository: str, tag: str, *layers: bytes, platforms: int = 1) -> str:
        """An index of images with these layers; its digest."""
        entries = []
        for number in range(platforms):
            config = json.dumps({"os": "linux", "number": number}).encode()
            blobs = [config, *layers]
            self.blobs.setdefault(repository, {}).update({digest_of(blob): blob for blob in blobs})
            told = [{"digest": digest_of(blob), "size": len(blob)} for blob in blobs]
            manifest = json.dumps({"mediaType": MANIFEST, "config": told[0], "layers": told[1:]}).encode()
            self._keep(repository, digest_of(manifest), MANIFEST, manifest)
            entries.append({"digest": digest_of(manifest), "mediaType": MANIFEST})
        index = json.dumps({"mediaType": INDEX, "manifests": entries}).encode()
        self._keep(repository, tag, INDEX, index)
        return digest_of(index)

    def _keep(self, repository: str, reference: str, media_type: str, body: bytes) -> None:
        known = self.manifests.setdefault(repository, {})
        known[reference] = known[digest_of(body)] = (media_type, body)

    def holds_whole(self, repository: str, reference: str) -> bool:
        """The image and all that it names."""
        _, body = self.manifests[repository][reference]
        manifest, blobs = json.loads(body), self.blobs.get(repository, {})
        named = [blob["digest"] for blob in (*manifest.get("layers", ()), *filter(None, [manifest.get("config")]))]
        is_whole = all(name in blobs and digest_of(blobs[name]) == name for name in named)
        return is_whole and all(self.holds_whole(repository, one["digest"]) for one in manifest.get("manifests", ()))


def make_handler(fake: FakeRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) if self.command != "GET" else b""
            fake.seen[self.command] += 1
            lie = fake.lie(self.command, url.path)
            if lie == "429":
                self._answer(429, {"Retry-After": "7"})
            elif lie == "500":
                self._answer(500)
            elif fake.password and not self._is_allowed(url.path):
                realm = f'Bearer realm="http://{fake.address}/token",service="r",scope="{self.command}"'
                self._answer(401, {"WWW-Authenticate": realm})
            else:
                self._route(url.path, {k: v[0] for k, v in parse_qs(url.query).items()}, body, lie)

        do_GET = do_HEAD = do_POST = do_PUT = _serve

        def _is_allowed(self, path: str) -> bool:
            if path == "/token":
                basic = base64.b64encode(f"user:{fake.password}".encode()).decode()
                return self.headers.get("Authorization") == f"Basic {basic}"
            return self.headers.get("Authorization") == "Bearer good"

        def _route(self, path: str, query: dict[str, str], body: bytes, lie: str) -> None:
            if path == "/token":
                self._answer(200, {}, b'{"token": "good"}')
                return
            found = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/(.*)", path)
            assert found is not None
            repository, kind, name = found.groups()
            if kind == "manifests":
                self._manifest(repository, name, body)
            elif self.command == "POST":
                self._begin(repository, query)
            elif self.command == "PUT":
                is_right = digest_of(body) == query["digest"]
                if is_right:
                    fake.blobs.setdefault(repository, {})[query["digest"]] = body
                    fake.seen["stored"] += 1
                self._answer(201 if is_right else 400)
            else:
                self._blob(fake.blobs.get(repository, {}).get(name), lie)

        def _manifest(self, repository: str, name: str, body: bytes) -> None:
            if self.command == "PUT":
                fake._keep(repository, name, self.headers["Content-Type"], body)
                self._answer(201 if fake.holds_whole(repository, name) else 400)
            elif (known := fake.manifests.get(repository, {}).get(name)) is None:
                self._answer(404)
            else:
                headers = {"Content-Type": known[0], "Docker-Content-Digest": digest_of(known[1])}
                self._answer(200, headers, known[1])

        def _begin(self, repository: str, query: dict[str, str]) -> None:
            there = fake.blobs.get(query.get("from", ""), {}).get(query.get("mount", ""))
            if there is not None:
                fake.blobs.setdefault(repository, {})[query["mount"]] = there
                fake.seen["mounted"] += 1
                self._answer(201)
            else:
                location = f"http://{fake.address}/v2/{repository}/blobs/uploads/1?state=x"
                self._answer(202, {"Location": location})

        def _blob(self, blob: bytes | None, lie: str) -> None:
            if blob is None:
                self._answer(404)
            elif lie == "corrupt":
                self._answer(200, {}, b"?" + blob[1:])
            elif lie == "cut":
                self._answer(200, {"Content-Length": str(len(blob))}, blob[: len(blob) // 2])
                self.close_connection = True
            else:
                self._answer(200, {}, blob)

        def _answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@pytest.fixture
def registries() -> Iterator[tuple[FakeRegistry, FakeRegistry]]:
    """Where images are, and where they go."""
    fakes, servers = (FakeRegistry(), FakeRegistry()), []
    for fake in fakes:
        server = ThreadingHTTPServer(("127.0.0.1", 0), make_handler(fake))
        fake.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        servers.append((server, thread))
    yield fakes
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


Pair = tuple[FakeRegistry, FakeRegistry]
LAYERS = (b"base" * 100_000, b"own" * 1_000)


def copier_of(slept: list[float] | None = None, logins: DockerLogins | None = None) -> ImageCopier:
    return ImageCopier(RegistryClient(logins or DockerLogins(), sleep=(slept if slept is not None else []).append))


def test_an_image_is_copied_with_its_digest_for_every_platform(registries: Pair) -> None:
    source, target = registries
    digest = source.push("team/a", "1", *LAYERS, platforms=2)
    copier = copier_of()
    copier.copy(f"{source.address}/team/a:1", f"{target.address}/x/team/a:1")
    assert copier.digest(f"{target.address}/x/team/a:1") == digest
    assert target.holds_whole("x/team/a", "1")
    assert target.seen["stored"] == 4, "two layers once, and two configurations"


def test_what_is_there_is_not_sent_again_and_what_another_repository_has_is_mounted(registries: Pair) -> None:
    source, target = registries
    source.push("a", "1", LAYERS[0], b"a")
    source.push("b", "1", LAYERS[0], b"b")
    target.blobs["a"] = {digest_of(LAYERS[0]): LAYERS[0]}
    copies = {f"{source.address}/{name}:1": f"{target.address}/{name}:1" for name in "ab"}
    found = mirror_images(copies, copier_of(), parallel=1, tell=lambda done: None)
    assert [done.outcome for done in found] == ["copied", "copied"]
    assert target.holds_whole("a", "1")
    assert target.holds_whole("b", "1")
    assert target.seen["stored"] == 3, "the configuration, which both have, and a layer of each"
    assert target.seen["mounted"] == 2, "the base, and the configuration"


@pytest.mark.parametrize(
    ("place", "method", "path", "lies", "pauses"),
    [
        (0, "GET", "manifests/1", ["429", "429"], [7.0, 7.0]),
        (0, "GET", digest_of(LAYERS[0]), ["500", "cut", "corrupt"], [1.0, 2.0, 4.0]),
        (1, "POST", "uploads/", ["429"], [7.0]),
        (1, "PUT", "uploads/1", ["500"], [1.0]),
        (1, "PUT", "manifests/1", ["429"], [7.0]),
    ],
    ids=["source-refuses", "source-fails-cuts-and-corrupts", "target-refuses", "target-fails", "target-refuses-last"],
)
def test_a_registry_that_lies_for_a_while_is_asked_again(
    registries: Pair, place: int, method: str, path: str, lies: list[str], pauses: list[float]
) -> None:
    source, target = registries
    source.push("a", "1", *LAYERS)
    registries[place].lies[method, path] = list(lies)
    slept: list[float] = []
    copier_of(slept).copy(f"{source.address}/a:1", f"{target.address}/a:1")
    assert slept == pauses
    assert target.holds_whole("a", "1")


def test_a_blob_that_stays_corrupt_is_said_and_never_stored_and_the_rest_is_kept_for_the_next_time(
    registries: Pair,
) -> None:
    source, target = registries
    source.push("a", "1", *LAYERS)
    source.lies["GET", digest_of(LAYERS[1])] = ["corrupt"] * 6
    copier = copier_of()
    with pytest.raises(CopyError, match="came with other bytes"):
        copier.copy(f"{source.address}/a:1", f"{target.address}/a:1")
    assert copier.digest(f"{target.address}/a:1") is None
    assert target.seen["stored"] == 2
    copier_of().copy(f"{source.address}/a:1", f"{target.address}/a:1")
    assert target.holds_whole("a", "1")
    assert target.seen["stored"] == 3


def test_a_copy_that_is_stopped_ends_soon_and_stores_nothing_by_half(registries: Pair) -> None:
    source, target = registries
    source.push("a", "1", *LAYERS)
    source.lies["GET", digest_of(LAYERS[0])] = ["429", "429"]
    copier = ImageCopier(RegistryClient())
    threading.Timer(0.05, copier.stop).start()
    with pytest.raises(CopyError, match="interrupted"):
        copier.copy(f"{source.address}/a:1", f"{target.address}/a:1")
    assert copier_of().digest(f"{target.address}/a:1") is None
    copier_of().copy(f"{source.address}/a:1", f"{target.address}/a:1")
    assert target.holds_whole("a", "1")


def test_what_is_missing_is_said_at_once(registries: Pair) -> None:
    source, target = registries
    slept: list[float] = []
    with pytest.raises(CopyError, match="answers 404"):
        copier_of(slept).copy(f"{source.address}/a:1", f"{target.address}/a:1")
    assert slept == []


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", b"{}", b'{"layers": [7]}', b'{"manifests": [{}]}', b'{"layers": [{"digest": "sha256:1"}]}'],
)
def test_what_is_no_manifest_is_said(registries: Pair, body: bytes) -> None:
    source, target = registries
    source.manifests = {"a": {"1": (MANIFEST, body)}}
    with pytest.raises(CopyError, match=f"{source.address} serves no manifest of a: "):
        copier_of().copy(f"{source.address}/a:1", f"{target.address}/a:1")
    assert target.manifests == {}


@pytest.mark.parametrize(
    ("key", "host"),
    [("r.test", "r.test"), ("https://r.test/v1/", "r.test"), ("https://index.docker.io/v1/", "docker.io")],
)
def test_a_login_is_found_however_docker_wrote_its_registry(key: str, host: str) -> None:
    logins = DockerLogins({"auths": {"other.test": {}, key: {"username": "me", "password": "secret"}}})
    assert logins.find(host) == RegistryAuth("me", "secret")
    assert logins.find("other.test") is None


@pytest.mark.parametrize("text", ["[]", "{", '{"auths": 7}', '{"credHelpers": ["a"]}'])
def test_what_is_no_configuration_of_docker_is_said(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=f"{tmp_path}/config.json: .* log in again"):
        DockerLogins.read(tmp_path)


def test_a_login_that_cannot_be_read_is_told_with_its_registry() -> None:
    with pytest.raises(UserError, match=r"Docker's config.json has no password for r.test: log in again"):
        DockerLogins({"auths": {"r.test": {"auth": "?"}}}).find("r.test")


def test_both_registries_get_the_password_that_docker_login_left(registries: Pair, tmp_path: Path) -> None:
    source, target = registries
    source.push("a", "1", *LAYERS)
    source.password, target.password = "one", "two"
    auths = {fake.address: {"auth": base64.b64encode(f"user:{fake.password}".encode()).decode()} for fake in registries}
    (tmp_path / "config.json").write_text(json.dumps({"auths": auths}))
    copier_of(logins=DockerLogins.read(tmp_path)).copy(f"{source.address}/a:1", f"{target.address}/a:1")
    assert target.holds_whole("a", "1")
    with pytest.raises(CopyError, match="401"):
        copier_of().copy(f"{source.address}/a:1", f"{target.address}/a:1")


def test_a_credential_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-fake"
    helper.write_text('#!/bin/sh\nread host\necho "{\\"Username\\": \\"$host\\", \\"Secret\\": \\"s\\"}"\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    hub = "https://index.docker.io/v1/"
    for config in ({"credsStore": "fake"}, {"credHelpers": {hub: "fake"}}):
        assert DockerLogins(config).find("docker.io") == RegistryAuth(hub, "s")
    with pytest.raises(UserError, match="docker-credential-gone, named by"):
        DockerLogins({"credHelpers": {"r.test": "gone"}}).find("r.test")


def test_the_command_says_how_to_use_the_mirror_and_fails_if_an_image_did(
    sweyard: Callable[..., Any], registries: Pair, tmp_path: Path
) -> None:
    source, target = registries
    source.push("team/good", "1", *LAYERS)
    images = [f"{source.address}/team/{name}:1" for name in ("good", "bad")]
    file = tmp_path / "cache.yaml"
    document = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "ImageCache", "metadata": {"name": "c"}}
    file.write_text(json.dumps({**document, "spec": {"images": images}}))
    command = ("cache", "mirror", "-f", file, "--to", f"{target.address}/")
    for outcome in ("copied", "present"):
        result = sweyard(*command)
        assert result.exit_code != 0
        assert f"{outcome}: {images[0]}" in result.output
        assert f"failed: {images[1]}: the registry answers 404 Not Found" in result.output
    assert f"- {{registry: {source.address}, mirror: {target.address}}}" in result.output
