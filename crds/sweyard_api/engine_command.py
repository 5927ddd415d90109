"""How a vLLM server is started for a run: pure, so that operator, trainer and tests agree."""

import math
import re
from itertools import pairwise

from sweyard_api.base import quantity_value
from sweyard_api.engine_program import ENGINE_PROGRAM
from sweyard_api.pod_options import GPU_RESOURCE
from sweyard_api.training_run import TrainingRunSpec

ENGINE_START = ("-c", ENGINE_PROGRAM, "serve")
"""What Python is told before an engine's arguments."""
HEADLESS = "--headless"
"""Of the pods of an engine that spans pods, save the first: to work for that one, and serve nobody."""
SERVED_MODEL_NAME = "policy"
_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM takes for --max-lora-rank."""
ADAPTER_NAME = "adapter"
"""What trained adapters are called beside SERVED_MODEL_NAME."""
_QUANTIZATION = re.compile(r"^(--quantization|-q)(=|$)")


def engine_model(spec: TrainingRunSpec, model_path: str) -> str:
    """Where the files lie that engines serve of the model at `model_path`."""
    return model_path if spec.inference.weights == "full" else f"{model_path}-{spec.inference.weights}"


def engine_quantization(spec: TrainingRunSpec) -> str | None:
    """The quantisation that `inference.weights` or `inference.extraArgs` asks for."""
    if spec.inference.weights != "full":
        return spec.inference.weights
    for argument, following in pairwise([*spec.inference.extra_args, ""]):
        if found := _QUANTIZATION.match(argument):
            return argument[found.end() :] or following
    return None


def engine_takes_adapters(spec: TrainingRunSpec) -> bool:
    """Whether it keeps the model that it started with and is sent trained adapters alone."""
    return spec.mode != "eval" and spec.trainer.lora is not None and spec.trainer.lora.sync == "adapter"


def engine_uses_gpu(spec: TrainingRunSpec) -> bool:
    """Whether the engine finds a GPU: as trainer.device says, else by the GPU limit of the engine's pods."""
    if spec.trainer.device != "auto":
        return spec.trainer.device == "cuda"
    options = spec.trainer if spec.inference.placement == "colocated" else spec.inference
    return GPU_RESOURCE in options.resources.limits


def engine_arguments(spec: TrainingRunSpec, model_path: str, port: int) -> list[str]:
    """Arguments after `vllm serve`, or after ENGINE_START, from a resolved spec.

    Logprobs are those of the sampled distribution, and the model's own sampling defaults (top-p, top-k) are kept
    out of it.
    """
    length = spec.inference.max_model_len or spec.rollout.max_prompt_tokens + spec.rollout.max_response_tokens
    return [
        engine_model(spec, model_path),
        *("--served-model-name", SERVED_MODEL_NAME),
        *("--host", "0.0.0.0"),
        *("--port", str(port)),
        *("--seed", str(spec.seed)),
        *("--dtype", spec.trainer.dtype),
        *("--max-model-len", str(length)),
        *("--logprobs-mode", "processed_logprobs"),
        *("--generation-config", "vllm"),
        "--disable-uvicorn-access-log",
        *(_gpu_arguments(spec) if engine_uses_gpu(spec) else _cpu_arguments(spec)),
        *_parallel_arguments(spec),
        *(("--enable-return-routed-experts",) if spec.trainer.replay_routing else ()),
        *_adapter_arguments(spec),
        *spec.inference.extra_args,
    ]


def _gpu_arguments(spec: TrainingRunSpec) -> list[str]:
    sleep = ["--enable-sleep-mode"] if spec.inference.placement == "colocated" else []
    backend = spec.inference.weight_sync
    receive = [] if backend == "disk" else ["--weight-transfer-config", f'{{"backend": "{backend}"}}']
    return [
        *("--gpu-memory-utilization", str(spec.inference.memory_fraction)),
        *sleep,
        *receive,
    ]


def _cpu_arguments(spec: TrainingRunSpec) -> list[str]:
    """Nothing is compiled. A first pass, without which there is no place for what one stage of a pipeline hands to the
    next, is made only where something might be: with TORCHDYNAMO_DISABLE, nothing is then, either."""
    if spec.inference.pipeline_parallel == 1:
        return ["--enforce-eager"]
    return ["--compilation-config", '{"mode": 1, "backend": "eager"}']


def _parallel_arguments(spec: TrainingRunSpec) -> list[str]:
    """On CPUs an engine is one process, save where it spans pods."""
    inference = spec.inference
    if not engine_uses_gpu(spec) and not inference.spans_pods:
        return []
    pipeline = inference.pipeline_parallel
    stages = ["--pipeline-parallel-size", str(pipeline)] if pipeline > 1 else []
    return ["--tensor-parallel-size", str(inference.tensor_parallel), *stages]


def _adapter_arguments(spec: TrainingRunSpec) -> list[str]:
    lora = spec.trainer.lora
    if lora is None or not engine_takes_adapters(spec):
        return []
    rank = next(allowed for allowed in _LORA_RANKS if allowed >= lora.rank)
    return ["--enable-lora", "--max-lora-rank", str(rank)]


def engine_environment(spec: TrainingRunSpec) -> dict[str, str]:
    """Environment of the server. Development mode opens the routes that take weights; only the trainer reaches them."""
    environment = {
        "VLLM_SERVER_DEV_MODE": "1",
        # As `vllm serve` has it: a fork would inherit what cannot be used in two processes.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        # It gives up by itself after 10 minutes else, and some models take longer to load.
        "VLLM_ENGINE_READY_TIMEOUT_S": str(spec.inference.startup_deadline_seconds),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        # Its clients must be the first to close an idle connection: a request that meets a closing one is lost.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "120",
    }
    if not engine_uses_gpu(spec):
        environment["VLLM_CPU_KVCACHE_SPACE"] = str(math.ceil(quantity_value(spec.inference.cpu_kv_cache) / 2**30))
        # --enforce-eager leaves a few helpers to torch.compile, which then wants a C++ compiler in the image.
        environment["TORCHDYNAMO_DISABLE"] = "1"
        # Threads that spin between two forward passes take the cores from the trainer and the sandboxes beside them.
        environment["OMP_WAIT_POLICY"] = "PASSIVE"
    if spec.inference.weight_sync == "ipc":
        # Handles of GPU memory travel pickled. Who reaches this port can have code run anyway, by /collective_rpc.
        environment["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    if engine_takes_adapters(spec):
        environment["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    return environment
