"""The trainer's image, gigabytes of it, built and run for real as its own user: `make image-trainer`."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweyard_cluster.image_builders import Buildah, Builder, choose_builder
from sweyard_cluster.images import build_images, image_tag
from sweyard_cluster.lifecycle import Tool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

CHECKOUT = Path(__file__).parents[2]
USER = "65532:65532"
GENERATE = """
import os
from pathlib import Path
os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1"}
from vllm import LLM, SamplingParams
from sweyard_api.workload import ScratchModel
from sweyard_trainer.model.scratch import make_scratch_model
from sweyard_trainer.model.tokenizer import learn_tokenizer

if __name__ == "__main__":
    model = Path("/tmp/model")
    model.mkdir()
    scratch = ScratchModel(layers=2, hidden_size=128, vocabulary_size=320)
    make_scratch_model(scratch, learn_tokenizer(["def mean(values):"] * 9, 320, 512), 512, seed=1, directory=model)
    engine = LLM(str(model), enforce_eager=True, dtype="float32", max_model_len=256)
    (answer,) = engine.generate(["def"], SamplingParams(max_tokens=8, ignore_eos=True, logprobs=1))
    print("tokens:", len(answer.outputs[0].token_ids), len(answer.outputs[0].logprobs))
"""
Python = Callable[..., str]


@pytest.fixture(scope="session")
def python(cluster_tool: Tool) -> Iterator[Python]:
    """Run the image's Python as its user; what it prints."""
    builder = choose_builder(cluster_tool.cache, cluster_tool.progress)
    sizes = build_images(["trainer"], CHECKOUT, cluster_tool.cache, builder, cluster_tool.progress)
    cluster_tool.progress.say(f"image trainer: {sizes['trainer'] / 1e9:.2f} GB")
    command, finish = runner(builder, image_tag("trainer"))

    def run(*arguments: str) -> str:
        done = subprocess.run([*command, "python", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield run
    if finish:
        subprocess.run(finish, check=True, capture_output=True)


def runner(builder: Builder, tag: str) -> tuple[list[str], list[str]]:
    """What to put before a command to run it in the image, and what to do at the end."""
    if not isinstance(builder, Buildah):
        return ["docker", "run", "--rm", "--network", "none", "--entrypoint", "", tag], []
    made = subprocess.run(builder.command("from", "--pull-never", tag), capture_output=True, text=True, check=True)
    name = made.stdout.strip()
    return builder.command("run", "--isolation", "chroot", name, "--"), builder.command("rm", name)


def test_its_user_is_not_root(python: Python) -> None:
    assert python("-c", "import os; print(f'{os.getuid()}:{os.getgid()}')") == f"{USER}\n"


def test_it_computes_what_training_needs(python: Python) -> None:
    """A step of training on the CPU: layers, a loss, gradients, an optimizer."""
    program = """
import torch
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
x, y = torch.randn(64, 8), torch.randn(64, 8)
losses = []
for _ in range(20):
    loss = torch.nn.functional.mse_loss(torch.nn.functional.silu(layer(x)), y)
    losses.append(loss.item())
    optimizer.zero_grad(); loss.backward(); optimizer.step()
torch.linalg.inv(torch.eye(4)); torch.nn.functional.scaled_dot_product_attention(*[torch.randn(1, 2, 4, 8)] * 3)
print(losses[-1] < losses[0])
"""
    assert python("-c", program) == "True\n"


def test_it_has_all_that_trainer_and_engine_import(python: Python) -> None:
    program = "import sweyard_trainer, torch, vllm, ray, transformers; print(torch.__version__.partition('+')[0])"
    pinned = (CHECKOUT / "requirements/trainer-cpu.txt").read_text()
    assert f"torch=={python('-c', program).strip()}\n" in pinned


@pytest.mark.parametrize("module", ["sweyard_trainer", "sweyard_trainer.prepare", "sweyard_trainer.gateway"])
def test_its_entry_points_start(module: str, python: Python) -> None:
    assert f"usage: python -m {module}" in python("-m", module, "--help")


def test_its_engine_generates(python: Python) -> None:
    store = f"from pathlib import Path; Path('/tmp/generate.py').write_text({GENERATE!r})"
    python("-c", store)
    assert "tokens: 8 8" in python("/tmp/generate.py").splitlines()
