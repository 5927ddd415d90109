"""Sizes of images from a registry: by index and manifest, with a token where one is asked for."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from sweyard_cli.cache.docker_logins import DockerLogins
from sweyard_cli.cache.registry import Registry, read_layers
from sweyard_cli.cache.registry_client import RegistryClient
from sweyard_cluster.pki import issue, make_authority

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYERS = [{"digest": "sha256:1", "size": 3_000_000_000}, {"digest": "sha256:2", "size": 500}]


@dataclass
class FakeRegistry:
    """What it serves by path; with `token`, only to who has it."""

    address: str = ""
    scheme: str = "http"
    pages: dict[str, dict[str, Any]] = field(default_factory=dict)
    token: str = ""
    challenge: str = "Bearer"
    num_tokens: int = 0
    token_form: dict[str, list[str]] = field(default_factory=dict)
    """The form by which a token was asked for last."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[FakeRegistry]:
    fake = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            fake.token_form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self._answer(200, {"access_token": fake.token})

        def do_GET(self) -> None:
            if self.path.startswith("/token"):
                fake.num_tokens += 1
                self._answer(200, {"token": fake.token})
            elif fake.token and self.headers.get("Authorization") != f"Bearer {fake.token}":
                realm = f'{fake.challenge} realm="{fake.scheme}://{fake.address}/token",service="r",scope="repository:a:pull"'
                self._answer(401, {}, {"WWW-Authenticate": realm})
            else:
                page = fake.pages.get(self.path)
                self._answer(404 if page is None else 200, page or {})

        def _answer(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    fake.address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield fake
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serving() as fake:
        yield fake


def test_the_manifest_of_our_platform_is_found_through_an_index(registry: FakeRegistry) -> None:
    platforms = [
        {"digest": f"sha256:{arch}", "platform": {"os": "linux", "architecture": arch}} for arch in ("arm64", "amd64")
    ]
    registry.pages["/v2/a/manifests/1"] = {"mediaType": INDEX, "manifests": platforms}
    registry.pages["/v2/a/manifests/sha256:amd64"] = {"mediaType": MANIFEST, "layers": LAYERS}
    assert Registry().layers(f"{registry.address}/a:1") == {"sha256:1": 3_000_000_000, "sha256:2": 500}


def test_a_token_is_fetched_once_a_repository(registry: FakeRegistry) -> None:
    registry.token = "secret"
    registry.pages["/v2/a/manifests/1"] = registry.pages["/v2/a/manifests/2"] = {"layers": LAYERS}
    reading = Registry()
    for tag in ("1", "2"):
        assert len(reading.layers(f"{registry.address}/a:{tag}")) == 2
    assert registry.num_tokens == 1


HELPER = '#!/bin/sh\necho "{\\"Username\\": \\"<token>\\", \\"Secret\\": \\"identity\\"}"\n'


@pytest.mark.parametrize("place", ["helper", "file"])
def test_an_identity_token_is_changed_for_one_of_the_repository(
    place: str, registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "docker-credential-fake"
    helper.write_text(HELPER)
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    entry = {"auth": "bm9ib2R5Og==", "identitytoken": "identity"}
    config = {"helper": {"credHelpers": {registry.address: "fake"}}, "file": {"auths": {registry.address: entry}}}
    registry.token = "secret"
    registry.pages["/v2/a/manifests/1"] = {"layers": LAYERS}
    reading = Registry(RegistryClient(DockerLogins(config[place])))
    assert len(reading.layers(f"{registry.address}/a:1")) == 2
    assert registry.token_form == {
        "grant_type": ["refresh_token"],
        "client_id": ["sweyard"],
        "refresh_token": ["identity"],
        "service": ["r"],
        "scope": ["repository:a:pull"],
    }


def test_a_registry_that_changes_no_tokens_wants_a_password(registry: FakeRegistry) -> None:
    registry.token, registry.challenge = "secret", "Basic"
    logins = DockerLogins({"auths": {registry.address: {"identitytoken": "identity"}}})
    _, untold = read_layers([f"{registry.address}/a:1"], Registry(RegistryClient(logins)))
    assert untold == {
        f"{registry.address}/a:1": f"{registry.address} wants a password, and Docker's configuration has a token for it"
    }


def test_why_there_is_no_size_is_told_and_harms_no_other(registry: FakeRegistry) -> None:
    registry.pages["/v2/a/manifests/1"] = {"layers": LAYERS}
    found, untold = read_layers([f"{registry.address}/a:1", f"{registry.address}/b:1"], Registry())
    assert list(found) == [f"{registry.address}/a:1"]
    assert untold == {f"{registry.address}/b:1": "the registry answers 404 Not Found"}


def test_a_plan_with_sizes_tells_bytes_time_and_what_does_not_fit(
    sweyard: Callable[..., Any], registry: FakeRegistry, tmp_path: Path
) -> None:
    images = [f"{registry.address}/a:{tag}" for tag in range(4)]
    for tag in range(4):
        own = {"digest": f"sha256:own{tag}", "size": 2_000_000_000}
        registry.pages[f"/v2/a/manifests/{tag}"] = {"layers": [LAYERS[0], own]}
    file = tmp_path / "cache.yaml"
    spec = {"images": images, "copies": "all"}
    document = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "ImageCache", "metadata": {"name": "c"}, "spec": spec}
    file.write_text(json.dumps(document))
    options = ["--nodes", "2", "--budget", "20G", "--bandwidth", "8Gbit", "--sizes", "--disk-factor", "2"]
    result = sweyard("cache", "plan", "-f", file, *options)
    assert result.exit_code == 0, result.output
    assert "18 GB to pull" in result.output, "3 + 3 * 2 on each of two nodes"
    assert "9 s at 8 Gbit/s a node" in result.output
    assert f"no node has room for 1 image: {images[3]}" in result.output
    assert "node-1: 3 images, 18 GB of 20 GB, 1 left out" in result.output


def test_a_registry_that_speaks_plain_http_is_read_only_with_leave(
    sweyard: Callable[..., Any], registry: FakeRegistry, tmp_path: Path
) -> None:
    host = registry.address.replace("127.0.0.1", "0.0.0.0")  # the same place, but not by a name of this machine's own
    registry.pages["/v2/a/manifests/1"] = {"layers": LAYERS}
    file = tmp_path / "cache.yaml"
    spec = {"images": [f"{host}/a:1"]}
    document = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "ImageCache", "metadata": {"name": "c"}, "spec": spec}
    file.write_text(json.dumps(document))
    ask = ["cache", "plan", "-f", file, "--nodes", "1", "--sizes"]
    refused = sweyard(*ask)
    assert f"{host} speaks plain HTTP; `sweyard cache` reads it with --insecure-registry {host}" in " ".join(
        refused.output.split()
    )
    assert "sizes are unknown, since no registry told any" in refused.output
    assert "3 GB to pull" in sweyard(*ask, "--insecure-registry", host).output


def test_an_unknown_certificate_is_told_with_its_remedy_and_its_registry_read_only_with_leave(tmp_path: Path) -> None:
    make_authority(tmp_path)
    issue(tmp_path, "registry", "/CN=registry", ["IP:0.0.0.0"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "registry.crt", tmp_path / "registry.key")
    with serving(context) as fake:
        fake.scheme, fake.token = "https", "secret"
        fake.address = fake.address.replace("127.0.0.1", "0.0.0.0")
        fake.pages["/v2/a/manifests/1"] = {"layers": LAYERS}
        image = f"{fake.address}/a:1"
        _, untold = read_layers([image], Registry(RegistryClient()))
        assert untold[image].startswith(f"{fake.address} has a certificate that this machine does not trust")
        assert f"--insecure-registry {fake.address}" in untold[image]
        found, _ = read_layers([image], Registry(RegistryClient(insecure_hosts=frozenset({fake.address}))))
    assert list(found) == [image], "its tokens come from the same place"
