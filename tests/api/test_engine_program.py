"""What an engine says of its end: the error that it died of, be it one of a child process of vLLM's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweyard_api.engine_command import ENGINE_START
from sweyard_api.engine_program import LAST_WORDS_VARIABLE

VLLM = {
    "vllm/__init__.py": "",
    "vllm/logger.py": """
DEFAULT_LOGGING_CONFIG = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"vllm": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}},
    "loggers": {"vllm": {"handlers": ["vllm"], "level": "INFO"}},
}
""",
    "vllm/utils/argparse_utils.py": "from argparse import ArgumentParser as FlexibleArgumentParser",
    "vllm/entrypoints/cli/serve.py": """
import subprocess, sys

class Serve:
    def subparser_init(self, parsers):
        parsers.add_parser("serve").add_argument("what")

    def validate(self, given):
        pass

    def cmd(self, given):
        if given.what == "nothing":
            raise ValueError("there is no such model:\\nnothing")
        if given.what == "too much":
            subprocess.run([sys.executable, "-m", "vllm.worker"], check=True)
            raise RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")

def cmd_init():
    return [Serve()]
""",
    "vllm/worker.py": """
import json, logging.config, os

from vllm.logger import DEFAULT_LOGGING_CONFIG

path = os.environ.get("VLLM_LOGGING_CONFIG_PATH")
logging.config.dictConfig(json.load(open(path)) if path else DEFAULT_LOGGING_CONFIG)
logger = logging.getLogger("vllm.worker")
logger.info("OSError is no error when it is told as news")
try:
    raise ValueError("no available memory for the cache blocks")
except ValueError:
    logger.exception("WorkerProc failed to start.")
try:
    raise RuntimeError("worker initialization failed")
except RuntimeError:
    logger.exception("EngineCore failed to start.")
""",
}
"""Of vLLM what the program uses, and as its processes tell of their errors."""


def serve(directory: Path, what: str, **variables: str) -> subprocess.CompletedProcess[str]:
    for path, text in VLLM.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(directory), **variables}
    return subprocess.run([sys.executable, *ENGINE_START, what], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        pytest.param("too much", "ValueError: no available memory for the cache blocks", id="of a child process"),
        pytest.param("nothing", "ValueError: there is no such model:\nnothing", id="of its own"),
        pytest.param("all", None, id="none"),
    ],
)
def test_the_error_that_an_engine_died_of_is_what_it_says_last(tmp_path: Path, what: str, told: str | None) -> None:
    last_words = tmp_path / "said"
    done = serve(tmp_path, what, **{LAST_WORDS_VARIABLE: str(last_words)})
    assert (last_words.read_text() if last_words.exists() else None) == told
    assert ("Traceback" in done.stderr) == (done.returncode != 0) == (told is not None)


def test_its_log_is_the_same_whether_or_not_it_says_so(tmp_path: Path) -> None:
    alone = serve(tmp_path, "too much")
    asked = serve(tmp_path, "too much", **{LAST_WORDS_VARIABLE: str(tmp_path / "said")})
    assert "WorkerProc failed to start." in alone.stdout
    assert alone.stdout == asked.stdout
