"""The deployment file of an external engine starts vLLM as a run needs it."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

from sweyard_api.engine_command import engine_arguments
from sweyard_api.resolve import resolve
from sweyard_api.yaml_text import load_document

EXAMPLE = Path(__file__).parents[2] / "examples" / "external"


@pytest.mark.parametrize("option", ["--served-model-name", "--logprobs-mode", "--generation-config"])
def test_it_has_the_options_on_which_recorded_logprobs_depend(option: str) -> None:
    spec = resolve(load_document((EXAMPLE / "trainingrun.yaml").read_text())["spec"])
    ours = dict(pairwise(engine_arguments(spec, "model", 8_000)))
    source = ast.parse((EXAMPLE / "modal_vllm.py").read_text())
    pairs = [ast.unparse(node.value) for node in ast.walk(source) if isinstance(node, ast.Starred)]
    assert f"('{option}', '{ours[option]}')" in pairs
