"""Why a container is dead, from what the engine says of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from sweyard_sandbox.errors import FailureReason
from sweyard_sandbox.runtimes.docker.runtime import DockerContainer

_ENGINE = """\
#!/bin/sh
case $1 in
inspect) [ -s {folder}/state ] && exec cat {folder}/state; echo 'No such container' >&2; exit 1 ;;
events) case $* in *--filter=container=box*--filter=event=kill*) exec cat {folder}/signals ;; esac ;;
esac
exit 2
"""
_STOPPED = "2026-01-01T00:00:00Z container kill 0123 (name=box, signal=15)\n"


@pytest.mark.parametrize(
    ("state", "signals", "reason"),
    [
        pytest.param({"Running": True}, "", None, id="lives"),
        pytest.param({"Running": False, "OOMKilled": True}, "", FailureReason.OOM_KILLED, id="out-of-memory"),
        pytest.param({"Running": False, "ExitCode": 143}, _STOPPED, FailureReason.ERROR, id="stopped"),
        pytest.param({"Running": False, "ExitCode": 143}, "", FailureReason.ENDED_FROM_WITHIN, id="from-within"),
        pytest.param({"Running": False, "ExitCode": 0}, "", FailureReason.ERROR, id="not-held-any-more"),
        pytest.param(None, "", FailureReason.DELETED, id="removed"),
    ],
)
async def test_a_container_that_nobody_stopped_was_ended_from_within(
    tmp_path: Path, state: dict[str, Any] | None, signals: str, reason: FailureReason | None
) -> None:
    program = tmp_path / "docker"
    program.write_text(_ENGINE.format(folder=tmp_path))
    program.chmod(0o755)
    (tmp_path / "state").write_text(json.dumps(state) if state else "")
    (tmp_path / "signals").write_text(signals)
    error = await DockerContainer(str(program), "box").explain()
    assert (error.reason if error else None) is reason
