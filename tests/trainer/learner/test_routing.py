"""Replay of expert routing on a tiny mixture of experts, against the model's own choice of the same experts."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.learner.attention import NAME, register_packed_attention
from sweyard_trainer.learner.batches import to_sequence
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.learner.policy import Policy
from sweyard_trainer.learner.routing import RoutingReplay, complete_routing
from sweyard_trainer.learner.sequences import TrainingSequence, pack
from sweyard_trainer.learner.sharding import decoder_layers
from sweyard_trainer.trajectory import Segment

CPU = torch.device("cpu")
LAYERS, EXPERTS, CHOSEN = 2, 8, 2


@pytest.fixture
def moe(tmp_path: Path) -> Path:
    """A model directory."""
    config = Qwen3MoeConfig(
        vocab_size=320,
        hidden_size=16,
        intermediate_size=32,
        moe_intermediate_size=8,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        num_experts=EXPERTS,
        num_experts_per_tok=CHOSEN,
        norm_topk_prob=True,
        max_position_embeddings=256,
        dtype="float32",
    )
    torch.manual_seed(3)
    Qwen3MoeForCausalLM(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def load(directory: Path) -> Policy:
    register_packed_attention()
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation=NAME)
    return Policy(model, replay=RoutingReplay(model, list(decoder_layers(model))))


@contextmanager
def listening(policy: Policy, heard: list[torch.Tensor]):
    """Collects the experts of each layer's forward pass."""
    routers = [module for name, module in policy.model.named_modules() if name.endswith("mlp.gate")]
    hooks = [
        router.register_forward_hook(lambda _module, _input, output: heard.append(output[2])) for router in routers
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def own_routing(policy: Policy, sequence: TrainingSequence) -> np.ndarray:
    """[T, layers, experts a token] that the policy takes by itself, as an engine would send it."""
    heard: list[torch.Tensor] = []
    with torch.no_grad(), listening(policy, heard):
        policy(pack([replace(sequence, routed_experts=None)], CPU))
    return torch.stack(heard, dim=1).to(torch.uint8).numpy()


def other_routing(length: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack(
        [generator.permuted(np.tile(np.arange(EXPERTS), (length, 1)), axis=1)[:, :CHOSEN] for _ in range(LAYERS)], 1
    ).astype(np.uint8)


@pytest.fixture
def sequences(make_segment: Callable[..., Segment]) -> list[TrainingSequence]:
    return [to_sequence(make_segment(length, seed=length), temperature=1.0) for length in (9, 14)]


def test_the_models_own_routing_replayed_changes_no_bit(moe: Path, sequences) -> None:
    policy = load(moe)
    routed = [replace(sequence, routed_experts=own_routing(policy, sequence)) for sequence in sequences]
    with torch.no_grad():
        free, _ = policy(pack(sequences, CPU))
        replayed, _ = policy(pack(routed, CPU))
    assert torch.equal(free, replayed)


def test_a_changed_router_keeps_the_recorded_experts_and_weighs_them_itself(moe: Path, sequences) -> None:
    """But for rounding, logprobs under replay equal those of a model whose router can take no other experts."""
    policy = load(moe)
    sequence = replace(sequences[1], routed_experts=other_routing(14, seed=5))
    heard: list[torch.Tensor] = []
    with torch.no_grad(), listening(policy, heard):
        replayed, _ = policy(pack([sequence], CPU))
        free, _ = policy(pack([replace(sequence, routed_experts=None)], CPU))
    assert np.array_equal(torch.stack(heard[:LAYERS], dim=1).numpy(), sequence.routed_experts)
    assert not torch.allclose(free, replayed)
    torch.testing.assert_close(replayed, by_hand(moe, sequence), atol=1e-6, rtol=1e-6)


def by_hand(directory: Path, sequence: TrainingSequence) -> torch.Tensor:
    """By transformers alone, with all but the recorded experts' logits at minus infinity in each router."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    for index, layer in enumerate(model.model.layers):
        allowed = torch.from_numpy(sequence.routed_experts[:, index].astype(np.int64))

        def only_allowed(_module, _input, output, allowed=allowed):
            barred = torch.full_like(output[0], float("-inf")).scatter(1, allowed, output[0].gather(1, allowed))
            scores, indices = torch.softmax(barred, -1).topk(CHOSEN)
            return output[0], scores, indices

        layer.mlp.gate.register_forward_hook(only_allowed)
    ids = torch.from_numpy(sequence.token_ids.astype(np.int64))[None]
    with torch.no_grad():
        logprobs = torch.log_softmax(model(input_ids=ids).logits[0, :-1], -1).gather(-1, ids[0, 1:, None])[:, 0]
    return logprobs[torch.from_numpy(sequence.loss_mask[1:])]


@pytest.mark.parametrize("recomputed", [False, True], ids=["stored", "recomputed"])
def test_gradients_reach_routers_and_the_recorded_experts_alone(moe: Path, sequences, recomputed: bool) -> None:
    policy = load(moe).train()
    if recomputed:
        policy.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    routing = np.zeros((9, LAYERS, CHOSEN), np.uint8) + np.array([2, 5], np.uint8)
    logprobs, _ = policy(pack([replace(sequences[0], routed_experts=routing)], CPU))
    logprobs.sum().backward()
    for layer in policy.model.model.layers:
        assert layer.mlp.gate.weight.grad.abs().sum() > 0
        reached = layer.mlp.experts.down_proj.grad.abs().sum((1, 2)) > 0
        assert reached.nonzero()[:, 0].tolist() == [2, 5]


def test_neighbours_in_a_pack_keep_their_own_routing(moe: Path, sequences) -> None:
    policy = load(moe)
    routed = [
        replace(sequence, routed_experts=other_routing(sequence.num_tokens, seed=seed))
        for seed, sequence in enumerate(sequences)
    ]
    with torch.no_grad():
        packed, _ = policy(pack(routed, CPU))
        alone = torch.cat([policy(pack([sequence], CPU))[0] for sequence in routed])
    torch.testing.assert_close(packed, alone, atol=1e-6, rtol=1e-6)


def test_only_the_last_token_may_lack_its_experts() -> None:
    routing = other_routing(5, seed=0)
    assert np.array_equal(complete_routing(routing, 4), routing[:4])
    assert np.array_equal(complete_routing(routing, 6)[:5], routing)
    assert complete_routing(routing, 6).shape == (6, LAYERS, CHOSEN)
    with pytest.raises(ValueError, match="5 tokens"):
        complete_routing(routing, 7)


def test_a_model_without_experts_is_refused(tiny_model: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    with pytest.raises(UnsupportedError, match="replayRouting"):
        RoutingReplay(model, list(decoder_layers(model)))


async def test_the_learner_trains_a_mixture_on_recorded_routing_and_refuses_what_lacks_it(
    moe: Path, make_spec, make_segment, make_trajectory
) -> None:
    def routed(seed: int) -> Segment:
        return replace(make_segment(20, seed), routed_experts=other_routing(19, seed))

    group = [make_trajectory(seed % 2, segments=(routed(seed),), seed=seed) for seed in range(4)]
    spec = make_spec(trainer={"replayRouting": True, "gradientCheckpointing": True}, algorithm={"minibatches": 2})
    learner = make_learner(spec, moe.parent, num_threads=1)
    await learner.start()
    try:
        metrics = await learner.train_step([group])
        with pytest.raises(UnsupportedError, match="--enable-return-routed-experts"):
            await learner.train_step([[make_trajectory(seed % 2, seed=seed) for seed in range(4)]])
        trained = await learner.save_weights(1)
    finally:
        await learner.stop()
    assert metrics["updates"] == 2
    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (moe, trained))
    moved = [not torch.equal(*pair) for pair in zip(before.parameters(), after.parameters(), strict=True)]
    assert all(moved)
