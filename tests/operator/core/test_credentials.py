"""Kubeconfigs and service accounts, as they are found in the wild."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweyard_operator.credentials import CredentialsError, TokenFile, load_credentials
from sweyard_operator.testing.virtual_time import run_in_virtual_time


def write_kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    config = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_plain_token(tmp_path: Path) -> None:
    credentials = load_credentials(write_kubeconfig(tmp_path, {"token": "secret"}))
    assert (credentials.server, credentials.namespace) == ("http://127.0.0.1:1", "team")
    assert credentials.ssl_context is None
    assert asyncio.run(credentials.token_source.token()) == "secret"


def test_a_token_file_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    credentials = load_credentials(write_kubeconfig(tmp_path, {"tokenFile": "token"}))
    assert asyncio.run(credentials.token_source.token()) == "from-file"


def test_a_rotated_token_is_read_again_within_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def main() -> list[str | None]:
        source = TokenFile(path)
        first = await source.token()
        path.write_text("new")
        await asyncio.sleep(30)
        second = await source.token()
        await asyncio.sleep(40)
        return [first, second, await source.token()]

    assert run_in_virtual_time(main()) == ["old", "old", "new"]


def test_an_exec_plugin_is_asked_again_only_when_its_token_expires(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    answers = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    for number, expiry in ((1, "2000-01-01T00:00:00Z"), (2, "2999-01-01T00:00:00Z")):
        status = {"token": f"token-{number}", "expirationTimestamp": expiry}
        (tmp_path / f"answer-{number}").write_text(json.dumps({**answers, "status": status}))
    plugin.write_text(
        f'#!/bin/sh\necho x >> "{tmp_path}/calls"\n'
        f'n=$(wc -l < "{tmp_path}/calls")\n[ "$n" -gt 2 ] && n=2\ncat "{tmp_path}/answer-$((n))"\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"command": str(plugin), "args": [], "env": None}}
    credentials = load_credentials(write_kubeconfig(tmp_path, user))

    async def main() -> list[str | None]:
        return [await credentials.token_source.token() for _ in range(4)]

    assert asyncio.run(main()) == ["token-1", "token-2", "token-2", "token-2"]


def test_an_exec_plugin_that_fails_is_named(tmp_path: Path) -> None:
    credentials = load_credentials(write_kubeconfig(tmp_path, {"exec": {"command": "false"}}))
    with pytest.raises(CredentialsError, match="false ended with 1"):
        asyncio.run(credentials.token_source.token())


@pytest.mark.parametrize("text", ["", "[]", "current-context: nowhere", "{{"], ids=["empty", "list", "dangling", "bad"])
def test_a_useless_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(CredentialsError, match="is not a usable kubeconfig"):
        load_credentials(path)


def test_no_kubeconfig_and_no_pod_says_what_to_set() -> None:
    with pytest.raises(CredentialsError, match="set KUBECONFIG"):
        load_credentials(None)
