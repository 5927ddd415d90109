"""What engines serve in four bits is what the trainer holds in four bits, as compressed-tensors itself reads it."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.model.four_bit import BLOCK
from sweyard_trainer.model.int4_files import linear_layers, write_int4
from sweyard_trainer.prepare import prepare_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""Of compressed-tensors', when it is imported."""

FOUR_BITS = {
    "trainer": {"device": "auto", "lora": {"rank": 4, "base": "int4", "sync": "adapter"}},
    "inference": {"weights": "int4", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
}
"""On CPUs engines would have to compute in bfloat16, which the comparison would see."""


def whole(files: Path) -> dict[str, torch.Tensor]:
    """Weights by their plain names, of the one file, unpacked by compressed-tensors."""
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32

    stored = load_file(files / "model.safetensors")
    weights = {name: tensor for name, tensor in stored.items() if not name.rsplit(".", 1)[1].startswith("weight_")}
    for name in [name for name in stored if name.endswith(".weight_packed")]:
        layer = name.removesuffix(".weight_packed")
        shape = torch.Size(stored[f"{layer}.weight_shape"].tolist())
        steps = unpack_from_int32(stored[name], 4, shape).float()
        sizes = stored[f"{layer}.weight_scale"].float()
        weights[f"{layer}.weight"] = steps * sizes.repeat_interleave(BLOCK, 1)
    return weights


async def test_engines_are_given_the_base_that_the_trainer_holds(make_spec, storage: Path) -> None:
    spec = make_spec(**FOUR_BITS)
    (storage / "model-int4").mkdir()
    write_int4(storage / "model", storage / "model-int4")
    learner = make_learner(spec, storage, num_threads=1)
    await learner.start()
    try:
        await learner._on_all("write_weights", storage / "untrained")  # with adapters that change nothing yet
    finally:
        await learner.stop()
    held, served = load_file(storage / "untrained" / "model.safetensors"), whole(storage / "model-int4")
    assert held.keys() == served.keys()
    for name, tensor in held.items():
        torch.testing.assert_close(served[name], tensor, atol=1e-7, rtol=1e-6)


def test_the_config_says_how_to_read_them_and_the_index_where_they_lie(tmp_path: Path, tiny_model: Path) -> None:
    from compressed_tensors.quantization import QuantizationConfig

    write_int4(tiny_model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["hidden_size"] == json.loads((tiny_model / "config.json").read_text())["hidden_size"]
    scheme = QuantizationConfig.model_validate(config["quantization_config"]).config_groups["group_0"].weights
    assert (scheme.num_bits, scheme.group_size, scheme.symmetric) == (4, BLOCK, True)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    assert index.keys() == load_file(tmp_path / "model.safetensors").keys()
    assert all(f"{layer}.weight_packed" in index for layer in linear_layers(tiny_model))
    assert {"lm_head.weight", "model.embed_tokens.weight"} <= index.keys()
    assert (tmp_path / "tokenizer.json").is_file()


def test_they_are_prepared_beside_the_model_where_the_config_asks(make_spec, tmp_path: Path, tiny_model: Path) -> None:
    model = {"name": str(tiny_model)}
    plain, four_bits = tmp_path / "plain", tmp_path / "four bits"
    assert prepare_model(make_spec(model=model), plain) == plain / "model"
    assert not (plain / "model-int4").exists()
    assert prepare_model(make_spec(model=model, **FOUR_BITS), four_bits) == four_bits / "model"
    assert "model.layers.0.mlp.up_proj.weight_packed" in load_file(four_bits / "model-int4" / "model.safetensors")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"num_experts": 8}, "is a mixture of experts: set it to full", id="experts"),
        pytest.param({}, "96 columns cannot be quantised", id="a width between blocks"),
    ],
)
def test_models_that_do_not_fit_are_refused(tmp_path: Path, tiny_model: Path, changes, words: str) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | changes))
    if not changes:
        narrow = {name: tensor[:, :96] if tensor.ndim == 2 else tensor for name, tensor in whole(model).items()}
        save_file({name: tensor.contiguous() for name, tensor in narrow.items()}, model / "model.safetensors")
    with pytest.raises(UnsupportedError, match=words):
        write_int4(model, tmp_path)
