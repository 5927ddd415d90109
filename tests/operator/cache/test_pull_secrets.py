"""Credentials of agents: found by the host that image names carry, and as the kubelet has them at that moment."""

import base64
import json
from pathlib import Path

import pytest

from sweyard_operator.cache_agent.auth import PullSecrets
from sweyard_operator.cache_agent.cri import RegistryAuth

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
    assert PullSecrets(tmp_path).find(host) == RegistryAuth("me", "secret:with:colons")
    assert PullSecrets(tmp_path).find("other.test") is None


def test_a_password_that_was_replaced_counts_from_then_on(tmp_path: Path) -> None:
    secrets = PullSecrets(tmp_path)
    assert secrets.find("r.test") is None
    for password in ("first", "second"):
        mount(tmp_path, "secret-0", {"r.test": {"username": "me", "password": password}})
        assert secrets.find("r.test") == RegistryAuth("me", password)
