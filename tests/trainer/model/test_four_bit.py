from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.model.four_bit import BLOCK, CODEBOOKS, FourBitLinear, dequantize, quantize

KINDS = pytest.mark.parametrize("kind", sorted(CODEBOOKS))


def layer_of(weight: torch.Tensor, kind: str) -> FourBitLinear:
    layer = FourBitLinear(torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False), kind)
    codes, scales = quantize(weight, kind)
    layer.load_state_dict({"codes": codes, "scales": scales}, assign=True)
    return layer


@KINDS
def test_each_weight_becomes_the_nearest_value_of_its_block(kind: str) -> None:
    weight = torch.randn(6, 3 * BLOCK, generator=torch.Generator().manual_seed(0))
    codes, scales = quantize(weight, kind)
    assert (codes.dtype, codes.shape) == (torch.uint8, (6, 3 * BLOCK // 2))
    whole = dequantize(codes, scales, kind, torch.float32)
    values = torch.tensor(CODEBOOKS[kind]) * scales.repeat_interleave(BLOCK, 1)[..., None]
    nearest = (values - weight[..., None]).abs().amin(-1)
    torch.testing.assert_close((whole - weight).abs(), nearest, atol=1e-6, rtol=0)
    again = dequantize(*quantize(whole, kind), kind, torch.float32)
    torch.testing.assert_close(again, whole, atol=1e-6, rtol=1e-6)


@KINDS
def test_a_block_of_zeros_stays_zero(kind: str) -> None:
    assert dequantize(*quantize(torch.zeros(1, BLOCK), kind), kind, torch.float32).abs().max() == 0


@KINDS
def test_product_and_gradient_are_those_of_the_whole_weight(kind: str) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(5, BLOCK, generator=generator)
    layer = layer_of(weight, kind)
    inputs = torch.randn(2, 3, BLOCK, generator=generator, requires_grad=True)
    whole = dequantize(layer.codes, layer.scales, kind, torch.float32)
    ours, reference = layer(inputs).square().sum(), (inputs @ whole.T).square().sum()
    torch.testing.assert_close(ours, reference)
    torch.testing.assert_close(*(torch.autograd.grad(loss, inputs)[0] for loss in (ours, reference)))


def test_widths_that_no_blocks_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="blocks of 64"):
        quantize(torch.zeros(2, BLOCK + 2), "int4")


@KINDS
async def test_adapters_over_four_bits_train_and_resume_and_the_export_is_that_policy(
    make_spec, make_trajectory, storage: Path, kind: str
) -> None:
    lora = {"rank": 4, "alpha": 8, "targetModules": ["q_proj", "down_proj"], "base": kind}
    spec = make_spec(trainer={"lora": lora}, optimizer={"learningRate": 0.02})
    group = [make_trajectory(seed % 2, seed=seed) for seed in range(4)]
    learner = make_learner(spec, storage, num_threads=1)
    await learner.start()
    try:
        untrained = load_file(await learner.save_weights(0) / "model.safetensors")
        await learner.train_step([group])
        await learner.save_checkpoint(1, {})
        trained = load_file(await learner.save_weights(1) / "model.safetensors")
        second = await learner.train_step([group])
        assert await learner.load_latest() == (1, {})
        assert (await learner.train_step([group]))["loss"] == second["loss"]
    finally:
        await learner.stop()
    original = load_file(storage / "model" / "model.safetensors")
    for name, tensor in original.items():
        adapted = "q_proj" in name or "down_proj" in name
        held = dequantize(*quantize(tensor, kind), kind, torch.float32) if adapted else tensor
        torch.testing.assert_close(untrained[name], held, atol=1e-6, rtol=1e-6)
        assert torch.equal(trained[name], untrained[name]) != adapted


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        pytest.param(
            {"inference": {"extraArgs": ["--quantization", "awq"]}}, "quantised .awq.", id="whole weights into awq"
        ),
        pytest.param(
            {"inference": {"extraArgs": ["-q=fp8"]}, "trainer": {"lora": {}}}, "quantised .fp8.", id="merged into fp8"
        ),
        pytest.param(
            {"inference": {"engine": "transformers"}, "trainer": {"lora": {"sync": "adapter"}}},
            "set merged",
            id="adapters to an engine that takes none",
        ),
    ],
)
async def test_what_an_engine_cannot_take_is_refused_before_anything_starts(
    make_spec, storage: Path, sections, words: str
) -> None:
    with pytest.raises(UnsupportedError, match=words):
        await make_learner(make_spec(**sections), storage).start()
