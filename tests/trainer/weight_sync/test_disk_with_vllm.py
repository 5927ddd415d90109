"""A real vLLM server, a real learner and the directory between them: whole weights, and an engine that sleeps."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.trainer.weight_sync.agreement import WHOLE, check_agreement, demonstration, largest_gap

from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.prepare import prepare_model
from sweyard_trainer.weight_sync.colocated import ColocatedEngine, ColocatedFleet
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.patience import Patience

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


async def test_the_engine_takes_whole_weights_and_agrees_with_the_learner(
    make_spec, serve_vllm, tmp_path: Path, tiny_model: Path, make_trajectory
) -> None:
    await check_agreement(WHOLE, WHOLE.spec(make_spec, tiny_model), serve_vllm, tmp_path, make_trajectory)


async def test_each_stage_of_a_pipeline_takes_its_part_of_the_weights(
    make_spec, serve_vllm, tmp_path: Path, tiny_model: Path, make_trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # else each stage wants a NUMA node of its own
    stages = replace(WHOLE, sections={"inference": {"pipelineParallel": 2}})
    await check_agreement(stages, stages.spec(make_spec, tiny_model), serve_vllm, tmp_path, make_trajectory)


async def test_an_engine_beside_the_learner_takes_no_request_while_it_sleeps_and_wakes_with_each_version(
    make_spec, serve_vllm, tmp_path: Path, tiny_model: Path, make_trajectory
) -> None:
    """On CPUs it keeps its memory meanwhile."""
    spec = WHOLE.spec(make_spec, tiny_model)
    with serve_vllm(spec, prepare_model(spec, tmp_path)) as url:
        learner, control = make_learner(spec, tmp_path, num_threads=2), EngineControl(url)
        engine = ColocatedEngine(control, DiskEngine(control, tmp_path / "weights"))
        fleet = ColocatedFleet([engine], Patience(update=120, gone=120), learner)
        try:
            await fleet.rest()
            await learner.start()
            for version in (1, 2):
                assert await control.served_version() == "paused"
                await learner.sft_step([demonstration(range(100, 124))])
                await learner.save_weights(version)
                await fleet.publish(version)
                assert await largest_gap(learner, url, version, make_trajectory) < WHOLE.tolerance
                await fleet.rest()
        finally:
            await learner.stop()
