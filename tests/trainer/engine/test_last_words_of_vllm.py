"""A real vLLM that cannot start for an error of its engine's process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweyard_api.engine_command import ENGINE_START, engine_arguments, engine_environment
from sweyard_api.engine_program import LAST_WORDS_VARIABLE

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


def test_what_kept_its_engine_from_starting_is_what_the_server_says_last(
    make_spec, tmp_path: Path, tiny_model: Path
) -> None:
    lengths = {"maxPromptTokens": 256, "maxResponseTokens": 256}
    spec = make_spec(rollout=lengths, inference={"extraArgs": ["--num-gpu-blocks-override", "1"]})
    last_words = tmp_path / "said"
    variables = {**os.environ, **engine_environment(spec), LAST_WORDS_VARIABLE: str(last_words)}
    command = [sys.executable, *ENGINE_START, *engine_arguments(spec, str(tiny_model), 0)]
    with (tmp_path / "log").open("w") as log:
        assert subprocess.run(command, env=variables, stdout=log, stderr=log).returncode == 1
    said = last_words.read_text()
    assert said.startswith("ValueError: No available memory for the cache blocks"), (tmp_path / "log").read_text()
