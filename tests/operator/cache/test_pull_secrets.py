"""Credentials of agents: found by what image names carry, as the kubelet has them at that moment."""

import base64
import json
from pathlib import Path

import pytest

from sweyard_operator.cache_agent.auth import PullSecrets
from sweyard_operator.cache_agent.registry_auth import RegistryAuth

ENCODED = base64.b64encode(b"me:secret:with:colons").decode()


def mount(directory: Path, name: str, auths: dict[str, dict[str, str]]) -> None:
    (directory / name).mkdir(exist_ok=True)
    (directory / name / ".dockerconfigjson").write_text(json.dumps({"auths": auths}))


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("r.test:5000", "r.test:5000"),
        ("https://r.test", "r.test"),
        ("https://r.test/v2/", "r.test"),
        ("https://index.docker.io/v1/", "docker.io"),
    ],
)
def test_a_server_is_found_by_the_host_of_image_names(server: str, host: str, tmp_path: Path) -> None:
    mount(tmp_path, "secret-0", {server: {"auth": ENCODED}})
    assert PullSecrets(tmp_path).find(f"{host}/team/a:1") == RegistryAuth("me", "secret:with:colons")
    assert PullSecrets(tmp_path).find("other.test/team/a:1") is None


def test_a_password_that_was_replaced_counts_from_then_on(tmp_path: Path) -> None:
    secrets = PullSecrets(tmp_path)
    assert secrets.find("r.test/a:1") is None
    for password in ("first", "second"):
        mount(tmp_path, "secret-0", {"r.test": {"username": "me", "password": password}})
        assert secrets.find("r.test/a:1") == RegistryAuth("me", password)


@pytest.mark.parametrize(
    ("image", "username"),
    [
        ("r.test/team/a:1", "team"),
        ("r.test/team/a@sha256:" + "0" * 64, "team"),
        ("r.test/other/a:1", "all"),
        ("eu.cloud.test/a:1", "star"),
        ("a.eu.cloud.test/a:1", None),
        ("busybox:1", "hub"),
    ],
)
def test_of_several_entries_that_of_the_longest_path_counts_as_for_kubelets(
    image: str, username: str | None, tmp_path: Path
) -> None:
    servers = {"r.test": "all", "https://r.test/team": "team", "*.cloud.test": "star", "docker.io": "hub"}
    mount(tmp_path, "mine", {server: {"username": name, "password": "x"} for server, name in servers.items()})
    found = PullSecrets(tmp_path).find(image)
    assert (None if found is None else found.username) == username


def test_an_identity_token_is_no_password(tmp_path: Path) -> None:
    mount(tmp_path, "mine", {"r.test": {"identitytoken": "token", "auth": ENCODED}})
    assert PullSecrets(tmp_path).find("r.test/a:1") == RegistryAuth("", "", identity_token="token")


def test_what_the_secrets_lack_is_told_by_their_names(tmp_path: Path) -> None:
    secrets = PullSecrets(tmp_path)
    assert secrets.explain("r.test/a:1").endswith("for r.test are given: name a Secret that has them in pullSecrets")
    mount(tmp_path, "other", {"other.test": {"auth": ENCODED}, "r.test": {}})
    (tmp_path / "gone").mkdir()
    told = secrets.explain("r.test/a:1")
    assert told.startswith(
        "no Secret named in pullSecrets (gone, other) has credentials for r.test; Secret gone does not"
    )
    assert secrets.explain("other.test/a:1").startswith("the credentials for other.test in pullSecrets do not suffice")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"auths": []}',
        '{"auths": {"r.test": 1}}',
        '{"auths": {"r.test": {"auth": "?"}}}',
        '{"auths": 7}',
    ],
)
def test_a_secret_that_is_no_configuration_harms_no_other(text: str, tmp_path: Path) -> None:
    mount(tmp_path, "good", {"good.test": {"auth": ENCODED}})
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / ".dockerconfigjson").write_text(text)
    secrets = PullSecrets(tmp_path)
    assert secrets.find("good.test/a:1") is not None
    assert secrets.find("r.test/a:1") is None
    assert "Secret bad: its key .dockerconfigjson is no Docker configuration" in secrets.explain("r.test/a:1")
