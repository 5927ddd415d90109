"""A real vLLM server keeps its model and takes trained adapters, over whole weights and over four bits."""

from pathlib import Path

import pytest
from tests.trainer.weight_sync.agreement import Case, check_agreement

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

ADAPTERS = {"rank": 8, "alpha": 16, "sync": "adapter"}
CASES = {
    "over whole weights": Case(tolerance=1e-4, learning_rate=1e-2, sections={"trainer": {"lora": ADAPTERS}}),
    "over four bits, in bfloat16": Case(
        tolerance=0.05,
        learning_rate=1e-2,
        sections={
            "trainer": {"dtype": "bfloat16", "lora": {**ADAPTERS, "base": "int4"}},
            "inference": {"weights": "int4"},
        },
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_engine_takes_adapters_and_agrees_with_the_learner(
    case: Case, make_spec, serve_vllm, tmp_path: Path, tiny_model: Path, make_trajectory
) -> None:
    await check_agreement(case, case.spec(make_spec, tiny_model), serve_vllm, tmp_path, make_trajectory)
