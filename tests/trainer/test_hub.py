"""A model that the hub does not give: its name, the cause and the remedy; and whether another try may have it."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.constants import EXIT_CODE_USER_FAULT
from sweyard_api.resolve import dump_config
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.exit_codes import FAILED
from sweyard_trainer.prepare import prepare_model


@contextmanager
def hub_that_answers(status: int, headers: dict[str, str]) -> Iterator[str]:
    """Its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


ANSWERS = {
    "no such model": (
        404,
        {"X-Error-Code": "RepoNotFound"},
        EXIT_CODE_USER_FAULT,
        "for a private or gated one set HF_TOKEN",
    ),
    "a gated one": (
        403,
        {"X-Error-Code": "GatedRepo"},
        EXIT_CODE_USER_FAULT,
        "for a private or gated one set HF_TOKEN",
    ),
    "too many questions": (429, {}, FAILED, "check the network"),
    "a hub in trouble": (500, {}, FAILED, "check the network"),
}


def prepare(spec: Any, folder: Path, endpoint: str) -> tuple[int, str]:
    config = folder / "config.yaml"
    config.write_text(dump_config(spec))
    command = [sys.executable, "-m", "sweyard_trainer.prepare", "--config", str(config)]
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hub"), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [*command, "--storage", str(folder / "run")], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("status", "headers", "code", "remedy"), ANSWERS.values(), ids=ANSWERS)
def test_a_refusal_of_the_hub_is_told_with_the_model_and_the_remedy(
    make_spec: Any, tmp_path: Path, status: int, headers: dict[str, str], code: int, remedy: str
) -> None:
    with hub_that_answers(status, headers) as endpoint:
        returned, told = prepare(make_spec(model={"name": "someone/model"}), tmp_path, endpoint)
    assert (returned, told.startswith("error: model.name 'someone/model' cannot be downloaded")) == (code, True), told
    assert remedy in told
    assert "name a local directory" in told
    assert list((tmp_path / "run").iterdir()) == []


def test_no_hub_at_all_may_be_there_another_time(make_spec: Any, tmp_path: Path) -> None:
    code, told = prepare(make_spec(model={"name": "someone/model"}), tmp_path, "http://127.0.0.1:9")
    assert code == FAILED
    assert "'someone/model' cannot be downloaded from the hub (" in told
    assert "check the network, set HF_ENDPOINT to a mirror, or name a local directory" in told


@pytest.mark.parametrize(
    ("name", "says"),
    [("./nowhere", "no such directory; name a local"), ("a b c", "write OWNER/NAME, or name a local")],
    ids=["path", "words"],
)
def test_what_is_no_name_is_not_asked_for(make_spec: Any, tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        prepare_model(make_spec(model={"name": name}), tmp_path / "run", [])
