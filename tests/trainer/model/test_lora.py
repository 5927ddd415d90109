from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from sweyard_api.infrastructure import Lora
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.model.lora import fold_adapters


def test_folding_adds_the_scaled_product_under_plain_names() -> None:
    state = {
        "q.base_layer.weight": torch.eye(2),
        "q.lora_A.default.weight": torch.tensor([[1.0, 2.0]]),
        "q.lora_B.default.weight": torch.tensor([[3.0], [4.0]]),
        "norm.weight": torch.ones(2),
    }
    folded = fold_adapters(state, Lora(rank=1, alpha=0.5))
    assert folded.keys() == {"q.weight", "norm.weight"}
    assert folded["q.weight"].tolist() == [[2.5, 3.0], [2.0, 5.0]]


async def test_adapters_alone_are_trained_and_the_export_is_the_trained_policy(
    make_spec, make_trajectory, tied_storage: Path
) -> None:
    """Tied embeddings, two steps with a large rate: what plain transformers loads must be what was trained."""
    lora = {"rank": 4, "alpha": 8, "targetModules": ["q_proj", "v_proj"]}
    storage = tied_storage
    spec = make_spec(trainer={"lora": lora}, optimizer={"learningRate": 0.02}, inference={"engine": "transformers"})
    learner = make_learner(spec, storage, num_threads=1)
    group = [make_trajectory(seed % 2, seed=seed) for seed in range(4)]
    await learner.start()
    try:
        for _ in range(2):
            await learner.train_step([group])
        directory = await learner.save_weights(1)
        await learner.save_checkpoint(2, {})
        third = await learner.train_step([group])
        assert await learner.load_latest() == (2, {})
        again = await learner.train_step([group])
    finally:
        await learner.stop()
    assert again["loss"] == third["loss"]
    assert again["grad_norm"] == third["grad_norm"]

    before, after = (load_file(path / "model.safetensors") for path in (storage / "model", directory))
    changed = {name.split(".")[-2] for name in after if not torch.equal(before[name], after[name])}
    assert changed == {"q_proj", "v_proj"}
    model, info = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))

    def mean_logprob(model: torch.nn.Module) -> float:
        """Of a rewarded attempt."""
        segment = group[1].segments[0]
        ids = torch.from_numpy(segment.token_ids.astype("int64"))[None]
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, :-1]
        chosen = torch.log_softmax(logits, -1).gather(-1, ids[0, 1:, None])[:, 0]
        return float(chosen[torch.from_numpy(segment.loss_mask[1:])].mean())

    assert mean_logprob(model) > mean_logprob(AutoModelForCausalLM.from_pretrained(storage / "model")) + 0.01


async def test_fresh_adapters_change_nothing(make_spec, storage: Path) -> None:
    learner = make_learner(make_spec(trainer={"lora": {"rank": 2}}), storage, num_threads=1)
    await learner.start()
    try:
        directory = await learner.save_weights(0)
    finally:
        await learner.stop()
    before, after = (load_file(path / "model.safetensors") for path in (storage / "model", directory))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


async def test_adapters_are_written_alone_as_peft_reads_them(make_spec, make_trajectory, storage: Path) -> None:
    lora = {"rank": 4, "alpha": 8, "targetModules": ["q_proj", "down_proj"]}
    group = [make_trajectory(seed % 2, seed=seed) for seed in range(4)]
    written = {}
    for sync in ("adapter", "merged"):
        spec = make_spec(trainer={"lora": lora | {"sync": sync}}, optimizer={"learningRate": 0.02})
        learner = make_learner(spec, storage, num_threads=1)
        await learner.start()
        try:
            await learner.train_step([group])
            written[sync] = await learner.save_weights({"adapter": 1, "merged": 2}[sync])
        finally:
            await learner.stop()
    base = AutoModelForCausalLM.from_pretrained(storage / "model", dtype=torch.float32)
    adapted = PeftModel.from_pretrained(base, written["adapter"]).merge_and_unload().state_dict()
    merged = AutoModelForCausalLM.from_pretrained(written["merged"], dtype=torch.float32).state_dict()
    assert adapted.keys() == merged.keys()
    for name, tensor in merged.items():  # the merged ones went through bfloat16 only where trainer.dtype says so
        torch.testing.assert_close(adapted[name], tensor, atol=1e-6, rtol=1e-6)
    assert not (written["adapter"] / "model.safetensors").exists()
