"""One vLLM server on Modal, as `inference.placement: external` takes it (docs/external-engines.md).

    modal secret create sweyard-engine VLLM_API_KEY=...      # the key that clients must show
    modal deploy examples/external/modal_vllm.py             # prints the URL for inference.url

It returns token ids and the logprobs of the distribution that it sampled from. It takes no weights.
"""

import subprocess

import modal

MODEL = "Qwen/Qwen3-8B"
GPU = "H100"
MAX_MODEL_LEN = 36_864
"""At least rollout.maxPromptTokens + rollout.maxResponseTokens."""
PORT = 8_000
MINUTES = 60
CONCURRENT_REQUESTS = 64

MODELS = "/models"

image = modal.Image.debian_slim(python_version="3.12").pip_install("vllm>=0.32,<0.34").env({"HF_HOME": MODELS})
cache = modal.Volume.from_name("sweyard-models", create_if_missing=True)
app = modal.App("sweyard-engine", image=image)


def server_arguments() -> list[str]:
    """As the operator starts its own engines, but for weights (sweyard_api/engine_command.py)."""
    return [
        *("vllm", "serve", MODEL),
        *("--served-model-name", "policy"),
        *("--host", "0.0.0.0"),
        *("--port", str(PORT)),
        *("--max-model-len", str(MAX_MODEL_LEN)),
        *("--logprobs-mode", "processed_logprobs"),
        *("--generation-config", "vllm"),
    ]


@app.function(  # type: ignore[untyped-decorator]
    gpu=GPU,
    max_containers=1,
    timeout=24 * 60 * MINUTES,
    scaledown_window=15 * MINUTES,
    secrets=[modal.Secret.from_name("sweyard-engine")],
    volumes={MODELS: cache},
)
@modal.concurrent(max_inputs=CONCURRENT_REQUESTS)  # type: ignore[untyped-decorator]
@modal.web_server(port=PORT, startup_timeout=30 * MINUTES)  # type: ignore[untyped-decorator]
def serve() -> None:
    """vLLM reads its key from VLLM_API_KEY, which the secret sets."""
    subprocess.Popen(server_arguments())
