"""How a vLLM server is started for a run."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from sweyard_api.engine_command import (
    ENGINE_START,
    HEADLESS,
    engine_arguments,
    engine_environment,
    engine_model,
    engine_uses_gpu,
)
from sweyard_api.problem import InvalidSpecError
from sweyard_api.resolve import resolve
from sweyard_api.training_run import TrainingRunSpec

ONE_GPU = {"nvidia.com/gpu": 1}
TASKS = {"train": {"dataset": "tiny"}}


def run(preset: str, **explicit: Any) -> TrainingRunSpec:
    return resolve({"preset": preset, **({"tasks": TASKS} if preset == "tiny" else {}), **explicit})


def options(spec: TrainingRunSpec) -> dict[str, str]:
    arguments = engine_arguments(spec, "/model", 8000)
    return {
        name: value if not value.startswith("--") else ""
        for name, value in zip(arguments, [*arguments[1:], "--"], strict=True)
        if name.startswith("--")
    }


def test_logprobs_are_of_what_was_sampled() -> None:
    given = options(run("tiny"))
    assert given["--logprobs-mode"] == "processed_logprobs"
    assert given["--generation-config"] == "vllm"


def test_a_cpu_engine_runs_eagerly_with_its_cache_in_whole_gibibytes() -> None:
    spec = run("tiny", inference={"cpuKvCache": "1500Mi"})
    assert "--enforce-eager" in options(spec)
    assert "--tensor-parallel-size" not in options(spec)
    assert engine_environment(spec)["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert engine_environment(spec)["VLLM_SERVER_DEV_MODE"] == "1"


def test_a_cpu_engine_of_stages_has_its_first_pass_and_compiles_nothing_in_it() -> None:
    spec = run("tiny", inference={"pipelineParallel": 2})
    given = options(spec)
    assert "--enforce-eager" not in given
    assert json.loads(str(given["--compilation-config"])) == {"mode": 1, "backend": "eager"}
    assert engine_environment(spec)["TORCHDYNAMO_DISABLE"] == "1"


def test_an_engine_may_load_for_as_long_as_the_run_waits_for_it() -> None:
    spec = run("tiny", inference={"startupDeadlineSeconds": 5_400})
    assert engine_environment(spec)["VLLM_ENGINE_READY_TIMEOUT_S"] == "5400"


def test_a_gpu_engine_takes_its_share_of_the_memory() -> None:
    spec = run("deepswe-32b")
    given = options(spec)
    assert (given["--tensor-parallel-size"], given["--gpu-memory-utilization"]) == ("8", "0.6")
    assert "--enable-sleep-mode" in given
    assert "--enforce-eager" not in given
    assert "VLLM_CPU_KVCACHE_SPACE" not in engine_environment(spec)


def test_an_engine_that_is_sent_its_weights_over_nccl_listens_for_them() -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
    assert "--weight-transfer-config" not in options(run("qwen3-8b-minimal"))
    given = options(run("tiny", trainer={"device": "auto"}, inference=limits | {"weightSync": "nccl"}))
    assert given["--weight-transfer-config"] == '{"backend": "nccl"}'


def test_an_engine_may_serve_the_four_bits_that_the_trainer_holds() -> None:
    assert engine_arguments(run("qwen3-8b-minimal"), "/model", 8000)[0] == "/model-int4"
    assert "--quantization" not in options(run("qwen3-8b-minimal"))  # its files say how they are to be read


def test_an_engine_on_the_trainers_gpus_is_handed_its_weights_there() -> None:
    spec = run("deepswe-32b")
    assert options(spec)["--weight-transfer-config"] == '{"backend": "ipc"}'
    assert engine_environment(spec)["VLLM_ALLOW_INSECURE_SERIALIZATION"] == "1"
    on_disk = run("deepswe-32b", inference={"weightSync": "disk"})
    assert "--weight-transfer-config" not in options(on_disk)
    assert "VLLM_ALLOW_INSECURE_SERIALIZATION" not in engine_environment(on_disk)


@pytest.mark.parametrize(
    ("device", "limits", "on_gpu"),
    [
        ("auto", {}, False),
        ("auto", {"nvidia.com/gpu": 1}, True),
        ("cpu", {"nvidia.com/gpu": 1}, False),
        ("cuda", {}, True),
    ],
)
def test_the_device_follows_the_limits_unless_it_is_named(device: str, limits: dict[str, int], on_gpu: bool) -> None:
    spec = run("tiny", trainer={"device": device}, inference={"resources": {"limits": limits}})
    assert engine_uses_gpu(spec) is on_gpu


@pytest.mark.parametrize(("rank", "offered"), [(1, "1"), (9, "16"), (32, "32"), (500, "512")])
def test_adapters_get_the_next_rank_that_vllm_offers(rank: int, offered: str) -> None:
    assert options(run("qwen3-8b-minimal", trainer={"lora": {"rank": rank}}))["--max-lora-rank"] == offered


def test_further_arguments_come_last_and_so_prevail() -> None:
    arguments = engine_arguments(run("tiny", inference={"extraArgs": ["--max-num-seqs", "8"]}), "/model", 8000)
    assert arguments[-2:] == ["--max-num-seqs", "8"]


def test_an_engine_that_spans_pods_is_divided_also_on_cpus() -> None:
    given = options(run("tiny", inference={"tensorParallel": 2, "pipelineParallel": 2, "podsPerEngine": 2}))
    assert (given["--tensor-parallel-size"], given["--pipeline-parallel-size"]) == ("2", "2")


@pytest.mark.parametrize(
    ("inference", "problem"),
    [
        pytest.param({"tensorParallel": 2, "podsPerEngine": 3}, "podsPerEngine is 3: must divide", id="not evenly"),
        pytest.param(
            {"tensorParallel": 16, "podsPerEngine": 2, "resources": {"limits": {"nvidia.com/gpu": 4}}},
            "limits nvidia.com/gpu to fewer GPUs than tensorParallel x pipelineParallel / podsPerEngine",
            id="too few GPUs",
        ),
        pytest.param(
            {"pipelineParallel": 2, "engine": "transformers"}, "are for vLLM in pods of its own", id="no vLLM"
        ),
        pytest.param(
            {
                "tensorParallel": 2,
                "podsPerEngine": 2,
                "weightSync": "nccl",
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            },
            "weightSync to `disk`",
            id="weights from GPU to GPU",
        ),
    ],
)
def test_engines_that_cannot_span_pods_are_refused_in_a_sentence(inference: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidSpecError, match=re.escape(problem)):
        run("tiny", inference=inference, trainer={"device": "auto"})


def test_sixteen_gpus_of_two_nodes_are_an_engine() -> None:
    limits = {"limits": {"nvidia.com/gpu": 8}}
    spec = run("tiny", inference={"tensorParallel": 16, "podsPerEngine": 2, "resources": limits})
    assert spec.inference.gpus_per_engine == 16


@pytest.mark.vllm
@pytest.mark.parametrize("option", [HEADLESS, "--node-rank"])
def test_vllm_starts_whatever_its_distribution_is_called(option: str) -> None:
    command = [sys.executable, *ENGINE_START, f"--help={option.lstrip('-')}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, option in done.stdout) == (0, True), done.stderr


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")
def test_vllm_knows_the_arguments_of_an_engines_pods() -> None:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    spec = run("tiny", inference={"tensorParallel": 2, "pipelineParallel": 2, "podsPerEngine": 2})
    place = [HEADLESS, "--nnodes", "2", "--node-rank", "1", "--master-addr", "demo-engine-0.demo-engine"]
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args([*engine_arguments(spec, "/model", 8000), *place])
    assert (parsed.nnodes, parsed.node_rank, parsed.master_addr) == (2, 1, "demo-engine-0.demo-engine")
    assert (parsed.tensor_parallel_size, parsed.pipeline_parallel_size, parsed.headless) == (2, 2, True)


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("preset", ["tiny", "deepswe-32b", "qwen3-8b-minimal"])
def test_vllm_knows_every_argument_and_variable(preset: str) -> None:
    from vllm import envs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    spec = run(preset)
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(engine_arguments(spec, "/model", 8123))
    assert (parsed.model_tag, parsed.port, parsed.served_model_name) == (engine_model(spec, "/model"), 8123, ["policy"])
    assert parsed.max_model_len == spec.inference.max_model_len
    ours = {name for name in engine_environment(spec) if name.startswith("VLLM_")}
    assert ours <= envs.environment_variables.keys()
