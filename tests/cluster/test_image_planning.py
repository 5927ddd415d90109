"""Image names, order and sources, without building any."""

import io
import json
import os
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sweyard_cluster.debian import host_mirror, mirror_of
from sweyard_cluster.errors import ClusterError
from sweyard_cluster.image_builders import PUBLIC_BASE, Build, docker_can_build, npm_settings, parse_size, pip_settings
from sweyard_cluster.images import IMAGES, build_images, build_order, provide_debian, small_images
from sweyard_cluster.loading import name_in_cluster, sources
from sweyard_cluster.paths import Cache
from sweyard_cluster.terminal import Progress

CHECKOUT = Path(__file__).parents[2]


@dataclass
class RecordingBuilder:
    """A builder that keeps what it was asked for."""

    has_registry: bool = True
    builds: list[Build] = field(default_factory=list)

    def build(self, build: Build, progress: Progress) -> None:
        self.builds.append(build)

    def size_bytes(self, tag: str) -> int | None:
        return next((1000 for build in self.builds if build.tag == tag), None)

    def source(self, tag: str) -> str:
        return f"fake:{tag}"


def test_images_are_built_after_their_bases() -> None:
    assert build_order(["trainer", "operator"]) == ["base", "trainer", "python", "operator"]
    assert sorted(build_order(IMAGES)) == sorted(IMAGES)


SLOW_DEBOOTSTRAP = """#!/bin/sh
mkdir -p "$3" && : > "$3/$$" && sleep 0.3 && test -e "$3/$$"
"""
"""That fails if another one has cleared its directory."""


def test_who_wants_the_base_system_while_another_makes_it_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "debootstrap"
    program.parent.mkdir()
    program.write_text(SLOW_DEBOOTSTRAP)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))
    builder, progress = RecordingBuilder(has_registry=False), Progress(io.StringIO())
    with ThreadPoolExecutor(2) as makers:
        list(makers.map(lambda _: provide_debian(Cache(tmp_path / "cache"), builder, progress), range(2)))
    assert [build.tag for build in builder.builds] == ["localhost/sweyard/debian:dev"]


def test_unknown_image_is_named() -> None:
    with pytest.raises(ClusterError, match="image 'operater' is not one of python, base, operator"):
        build_order(["operater"])


@pytest.mark.parametrize("name", IMAGES)
def test_dockerfile_copies_only_what_exists(name: str) -> None:
    recipe = IMAGES[name]
    text = (CHECKOUT / "images" / recipe.folder / "Dockerfile").read_text()
    for variable, value in recipe.arguments.items():
        text = text.replace(f"${{{variable}}}", value)
    copied = [line.split()[1] for line in text.splitlines() if line.startswith("COPY ") and "--from" not in line]
    assert [path for path in copied if not (CHECKOUT / path).exists()] == []


def test_each_image_is_told_its_base(tmp_path: Path) -> None:
    builder = RecordingBuilder()
    sizes = build_images(["operator"], CHECKOUT, Cache(tmp_path), builder, Progress(io.StringIO()))
    arguments: list[Mapping[str, str]] = [build.arguments for build in builder.builds]
    assert arguments == [{}, {"BASE_IMAGE": "localhost/sweyard/python:dev"}]
    assert sizes == {"python": 1000, "operator": 1000}


ENGINES = {
    "no engine": ("exit 1", False),
    "has the base": ("[ $1 = version ] || [ $1 = image ]", True),
    "pulls the base": ("[ $1 = version ] || [ $1 = pull ]", True),
    "reaches no registry": ("[ $1 = version ]", False),
}


@pytest.mark.parametrize(("script", "builds"), ENGINES.values(), ids=ENGINES)
def test_docker_builds_where_its_engine_can_get_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, builds: bool
) -> None:
    (tmp_path / "docker").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert docker_can_build() is builds


def test_without_docker_nothing_is_asked_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not docker_can_build()


def test_the_base_that_is_looked_for_is_the_dockerfile_s() -> None:
    assert f"ARG BASE_IMAGE={PUBLIC_BASE}\n" in (CHECKOUT / "images/base/Dockerfile").read_text()


def test_folder_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"has no folder images/; run this from a checkout"):
        build_images(["base"], tmp_path, Cache(tmp_path), RecordingBuilder(), Progress(io.StringIO()))


def test_demo_builds_no_gigabytes() -> None:
    assert "trainer" not in small_images()
    assert "operator" in small_images()


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("localhost/sweyard/base:dev", "sweyard/base:dev"),
        ("registry.example.test:5000/team/app:1", "team/app:1"),
        ("sweyard/base:dev", "sweyard/base:dev"),
        ("python:3.12", "python:3.12"),
        ("localhost:5000/app", "app:latest"),
    ],
)
def test_name_in_the_cluster_has_no_host(image: str, name: str) -> None:
    assert name_in_cluster(image) == name


def archive(path: Path, members: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def test_archive_of_two_images_gives_both(tmp_path: Path) -> None:
    manifest = json.dumps([{"RepoTags": ["a:1"]}, {"RepoTags": ["b:2"]}]).encode()
    file = archive(tmp_path / "two.tar", {"manifest.json": manifest})
    assert sources(str(file), RecordingBuilder()) == {
        "a:1": f"docker-archive:{file}:a:1",
        "b:2": f"docker-archive:{file}:b:2",
    }


def test_oci_archive_is_named_after_its_file(tmp_path: Path) -> None:
    file = archive(tmp_path / "tool.tar", {"index.json": b"{}", "oci-layout": b"{}"})
    assert sources(str(file), RecordingBuilder()) == {"tool:latest": f"oci-archive:{file}"}


@pytest.mark.parametrize("content", [None, b"no tar at all"], ids=["tar of something else", "not a tar"])
def test_other_file_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "file.tar"
    if content is None:
        archive(file, {"README": b""})
    else:
        file.write_bytes(content)
    with pytest.raises(ClusterError, match=r"file\.tar is"):
        sources(str(file), RecordingBuilder())


def test_what_is_neither_file_nor_image_is_refused() -> None:
    with pytest.raises(ClusterError, match="'nothing:1' is neither a file nor a local image"):
        sources("nothing:1", RecordingBuilder())


@pytest.mark.parametrize(
    ("text", "size"), [("134 MB", 134_000_000), ("1.5 GB", 1_500_000_000), ("12 kB", 12_000), ("7 B", 7)]
)
def test_size_is_parsed(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("sources_text", "mirror"),
    [
        ("deb http://mirror.test/debian bookworm main\n", "http://mirror.test/debian"),
        ("deb [signed-by=/k.gpg] http://mirror.test/debian/ bookworm main\n", "http://mirror.test/debian/"),
        ("Types: deb\nURIs: http://mirror.test/debian-security\n\nURIs: http://mirror.test/debian\n",
         "http://mirror.test/debian"),
        ("# deb http://mirror.test/debian bookworm main\n", None),
    ],
    ids=["line", "options", "deb822", "comment"],
)  # fmt: skip
def test_mirror_is_the_machines_own(sources_text: str, mirror: str | None) -> None:
    assert mirror_of(sources_text) == mirror


def test_a_machine_without_a_mirror_is_told_where_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no Debian mirror is named in"):
        host_mirror(tmp_path)


def test_builds_trust_the_machines_certificates() -> None:
    settings = pip_settings("[global]\nindex-url = https://index.test/simple\ncert = /elsewhere.crt\n")
    assert "index-url = https://index.test/simple" in settings
    assert "cert = /run/host-certificates.crt" in settings
    assert "/elsewhere.crt" not in settings
    assert "cert = /run/host-certificates.crt" in pip_settings("")


def test_npm_in_a_build_has_the_machines_registry_and_trusts_what_the_build_is_lent() -> None:
    assert npm_settings("registry=https://npm.test/\n").splitlines() == [
        "registry=https://npm.test/",
        "cafile=/run/host-certificates.crt",
    ]
    assert npm_settings("") == "cafile=/run/host-certificates.crt\n"
