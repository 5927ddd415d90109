"""The whole learner with one rank in this process, on a real (tiny) model."""

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.trainer.learner.started import started

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.completeness import is_complete
from sweyard_trainer.errors import NothingToTrainError, TrainingDivergedError, UnsupportedError
from sweyard_trainer.learner.support import refuse_unsupported
from sweyard_trainer.trajectory import Segment, Trajectory

Groups = list[list[Trajectory]]


@pytest.fixture
def groups(make_trajectory: Callable[..., Trajectory]) -> Groups:
    """Two groups of four, half solved, of mixed lengths."""
    return [
        [make_trajectory(seed % 2, group=name, seed=10 * number + seed, length=20 + 7 * seed) for seed in range(4)]
        for number, name in enumerate(("a", "b"))
    ]


async def weights_after(spec: TrainingRunSpec, storage: Path, groups: Groups, steps: int) -> dict[str, torch.Tensor]:
    async with started(spec, storage) as learner:
        for _ in range(steps):
            await learner.train_step(groups)
        return load_file(await learner.save_weights(1) / "model.safetensors")


def largest_gap(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    assert left.keys() == right.keys()
    return max(float((left[name] - right[name]).abs().max()) for name in left)


async def test_supervised_steps_learn_the_demonstrations(make_spec, storage, make_segment) -> None:
    spec = make_spec(warmup={"steps": 60, "learningRate": 3e-3})
    demonstrations = [make_segment(30, seed) for seed in range(4)]
    async with started(spec, storage) as learner:
        losses = [(await learner.sft_step(demonstrations))["loss"] for _ in range(60)]
    assert losses[0] == pytest.approx(np.log(320), abs=0.5)
    assert losses[-1] < 0.5


async def test_policy_gradient_favours_what_was_rewarded(make_spec, storage, groups) -> None:
    async with started(make_spec(), storage) as learner:
        for _ in range(5):
            metrics = await learner.train_step(groups)
            assert metrics["updates"] == 1
        await learner.save_weights(1)
    before, after = storage / "model", storage / "weights" / "1"
    for solved in (1, 3):
        assert mean_logprob(after, groups[0][solved].segments[0]) > mean_logprob(before, groups[0][solved].segments[0])
    for unsolved in (0, 2):
        segment = groups[0][unsolved].segments[0]
        assert mean_logprob(after, segment) < mean_logprob(before, segment)


def mean_logprob(directory: Path, segment: Segment) -> float:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory)
    ids = torch.from_numpy(segment.token_ids.astype(np.int64))[None]
    with torch.no_grad():
        logprobs = torch.log_softmax(model(input_ids=ids).logits[0, :-1], -1).gather(-1, ids[0, 1:, None])[:, 0]
    return float(logprobs[torch.from_numpy(segment.loss_mask[1:])].mean())


@pytest.mark.parametrize("algorithm", [{}, {"epochsPerBatch": 2, "minibatches": 2}], ids=["one pass", "four updates"])
async def test_what_it_saw_of_each_trained_token_is_told_once(make_spec, storage, groups, algorithm: Any) -> None:
    spec = make_spec(algorithm=algorithm, trainer={"tokensPerMicrobatch": 64}, optimizer={"learningRate": 1e-4})
    async with started(spec, storage) as learner:
        await learner.train_step(groups)
        seen = {tokens.attempt_id: tokens for tokens in learner.take_seen()}
        assert learner.take_seen() == []
    trained = {trajectory.attempt_id: trajectory.segments[0] for group in groups for trajectory in group}
    assert seen.keys() == trained.keys()
    for name, segment in trained.items():
        own = seen[name]
        assert own.logprobs.mean() == pytest.approx(mean_logprob(storage / "model", segment), abs=1e-4)
        assert len(own.entropies) == len(own.logprobs) == segment.loss_mask[1:].sum()
        assert np.all((own.entropies > 0) & (own.entropies < np.log(320)))


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean_token_mean", "constant"])
async def test_micro_batches_do_not_change_the_result(make_spec, storage, groups, aggregation: str) -> None:
    algorithm = {"lossAggregation": aggregation, "lossConstant": 100 if aggregation == "constant" else None}
    damped = {
        "learningRate": 1e-3,
        "epsilon": 1e-5,
    }  # else Adam blows up the rounding of gradients that are almost zero
    one = make_spec(algorithm=algorithm, optimizer=damped, trainer={"tokensPerMicrobatch": 10_000})
    many = make_spec(algorithm=algorithm, optimizer=damped, trainer={"tokensPerMicrobatch": 64})
    first = await weights_after(one, storage, groups, steps=3)
    second = await weights_after(many, storage, groups, steps=3)
    assert largest_gap(first, second) < 5e-6
    assert largest_gap(first, load_file(storage / "model" / "model.safetensors")) > 1e-4


@pytest.mark.parametrize("estimator", ["grpo", "rloo", "dr_grpo", "reinforce_plus_plus", "gspo"])
async def test_every_estimator_trains(make_spec, storage, groups, estimator: str) -> None:
    algorithm = {"estimator": estimator, "epochsPerBatch": 2, "minibatches": 2}
    spec = make_spec(algorithm=algorithm, optimizer={"learningRate": 1e-5})
    async with started(spec, storage) as learner:
        metrics = await learner.train_step(groups)
    assert metrics["updates"] == 4
    assert metrics["grad_norm"] > 0


async def test_infrastructure_attempts_change_nothing(make_spec, storage, groups, make_trajectory) -> None:
    lost = make_trajectory(0, group="a", seed=99, length=50, outcome=Outcome.ENV_INFRA)
    without = await weights_after(make_spec(), storage, groups, steps=2)
    with_lost = await weights_after(make_spec(), storage, [[*groups[0], lost], groups[1]], steps=2)
    assert largest_gap(without, with_lost) == 0


async def test_groups_without_signal_leave_the_weights_alone(make_spec, storage, make_trajectory) -> None:
    silent = [[make_trajectory(0.1, seed=seed) for seed in range(8)]]
    async with started(make_spec(), storage) as learner:
        metrics = await learner.train_step(silent)
        weights = load_file(await learner.save_weights(1) / "model.safetensors")
    assert metrics["updates"] == 0
    assert largest_gap(weights, load_file(storage / "model" / "model.safetensors")) == 0


async def test_nothing_to_train_is_an_error_of_its_own(make_spec, storage, make_trajectory) -> None:
    async with started(make_spec(), storage) as learner:
        with pytest.raises(NothingToTrainError, match="infrastructure"):
            await learner.train_step([[make_trajectory(0, outcome=Outcome.ENV_INFRA)]])


async def test_kl_in_the_loss_holds_the_policy_near_its_reference(make_spec, storage, groups) -> None:
    free = await weights_after(make_spec(algorithm={"kl": {"coefficient": 1e-9}}), storage, groups, steps=6)
    held = await weights_after(make_spec(algorithm={"kl": {"coefficient": 5.0}}), storage, groups, steps=6)
    start = load_file(storage / "model" / "model.safetensors")
    assert largest_gap(held, start) < largest_gap(free, start)
    assert is_complete(storage / "reference")


async def test_kl_is_zero_at_the_reference_and_grows(make_spec, storage, groups) -> None:
    spec = make_spec(algorithm={"kl": {"coefficient": 0.01, "placement": "reward"}})
    async with started(spec, storage) as learner:
        kls = [(await learner.train_step(groups))["kl"] for _ in range(4)]
    assert kls[0] == pytest.approx(0, abs=1e-6)
    assert kls[-1] > 1e-5


@pytest.mark.parametrize("kl", [0.0, 0.1], ids=["without-reference", "with-reference"])
async def test_a_resumed_run_gives_the_same_weights_bit_for_bit(make_spec, storage, groups, make_segment, kl) -> None:
    spec = make_spec(
        warmup={"steps": 3, "learningRate": 1e-3},
        algorithm={"kl": {"coefficient": kl}, "minibatches": 2},
        optimizer={"learningRate": 1e-3, "schedule": "cosine", "weightDecay": 0.1},
    )
    demonstrations = [make_segment(30, seed) for seed in range(4)]
    async with started(spec, storage) as learner:
        await learner.sft_step(demonstrations)
        await learner.save_checkpoint(0, {"warm": 1})
        await learner.sft_step(demonstrations)
        await learner.train_step(groups)
        await learner.save_checkpoint(1, {"cursor": [1, 2], "in_flight": ["2/a/0"]})
        await learner.train_step(groups)
        undisturbed = load_file(await learner.save_weights(2) / "model.safetensors")
    async with started(spec, storage) as learner:
        assert await learner.load_latest() == (1, {"cursor": [1, 2], "in_flight": ["2/a/0"]})
        await learner.train_step(groups)
        resumed = load_file(await learner.save_weights(2) / "model.safetensors")
    assert largest_gap(undisturbed, resumed) == 0


async def test_a_run_resumed_in_its_warm_up_goes_on_with_it(make_spec, storage, make_segment) -> None:
    spec = make_spec(warmup={"steps": 4, "learningRate": 1e-3})
    demonstrations = [make_segment(30, seed) for seed in range(4)]
    async with started(spec, storage) as learner:
        await learner.sft_step(demonstrations)
        await learner.save_checkpoint(0, {})
        undisturbed = [await learner.sft_step(demonstrations) for _ in range(2)]
    async with started(spec, storage) as learner:
        assert await learner.load_latest() == (0, {})
        resumed = [await learner.sft_step(demonstrations) for _ in range(2)]
    for name in ("loss", "grad_norm", "learning_rate"):
        assert [metrics[name] for metrics in resumed] == [metrics[name] for metrics in undisturbed]


async def test_without_a_checkpoint_there_is_nothing_to_load(make_spec, storage) -> None:
    async with started(make_spec(), storage) as learner:
        assert await learner.load_latest() is None


async def test_the_last_two_versions_of_the_weights_are_kept(make_spec, storage) -> None:
    async with started(make_spec(), storage) as learner:
        for version in range(4):
            await learner.save_weights(version)
        assert sorted(path.name for path in (storage / "weights").iterdir()) == ["2", "3"]
        (storage / "weights" / "2.0123abcd.partial").mkdir()  # by a life that was killed
        await learner.save_weights(2)  # gone back to a checkpoint: version 3 was of another life
        assert sorted(path.name for path in (storage / "weights").iterdir()) == ["2"]


async def test_saved_weights_load_in_transformers_with_their_tokenizer(make_spec, storage) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    async with started(make_spec(), storage) as learner:
        directory = await learner.save_weights(1)
    model, info = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert AutoTokenizer.from_pretrained(directory).eos_token_id == model.generation_config.eos_token_id


async def test_a_tied_output_layer_is_trained_and_saved_as_one(make_spec, tied_storage, groups) -> None:
    spec = make_spec(
        inference={"engine": "transformers"}, trainer={"dtype": "bfloat16"}, optimizer={"learningRate": 0.01}
    )
    after = await weights_after(spec, tied_storage, groups, steps=1)
    before = load_file(tied_storage / "model" / "model.safetensors")
    assert "lm_head.weight" not in before
    assert after.keys() == before.keys()
    never_seen = [
        token
        for token in range(6, 320)
        if not any(token in trajectory.segments[0].token_ids for group in groups for trajectory in group)
    ]
    moved = (after["model.embed_tokens.weight"].float() - before["model.embed_tokens.weight"]).abs().amax(1)
    assert moved[never_seen].min() > 0.005, "only the output layer has gradients for tokens that were not in the input"


async def test_tied_embeddings_on_a_cpu_vllm_are_refused(make_spec, tied_storage) -> None:
    with pytest.raises(UnsupportedError, match="tied embeddings"):
        async with started(make_spec(), tied_storage):
            pass


async def test_four_bits_in_float32_on_a_cpu_vllm_are_refused(make_spec, storage) -> None:
    lora = {"rank": 4, "base": "int4", "sync": "adapter"}
    with pytest.raises(UnsupportedError, match=r"set trainer\.dtype to bfloat16"):
        async with started(make_spec(trainer={"lora": lora}, inference={"weights": "int4"}), storage):
            pass


async def test_replies_of_unknown_logprobs_are_trained_as_if_they_had_been_sampled_by_the_trainer(
    make_spec, storage, groups
) -> None:
    """Which is without a correction. Where it is not allowed they are no numbers, and stop the run."""
    unknown = [[replace(attempt, segments=(without_logprobs(attempt.segments[0]),)) for attempt in g] for g in groups]
    text = {"placement": "external", "url": "http://engine", "retokenizeReplies": True}
    damped = {"learningRate": 1e-3, "epsilon": 1e-5}
    ours = await weights_after(make_spec(inference=text, optimizer=damped), storage, unknown, steps=2)
    uncorrected = make_spec(algorithm={"importanceCorrection": {"level": "none"}}, optimizer=damped)
    assert largest_gap(ours, await weights_after(uncorrected, storage, groups, steps=2)) < 5e-6
    with pytest.raises(TrainingDivergedError):
        await weights_after(make_spec(), storage, unknown, steps=1)


def without_logprobs(segment: Segment) -> Segment:
    return replace(segment, logprobs=np.where(segment.loss_mask, np.nan, 0).astype(np.float32))


async def test_bfloat16_computes_in_half_and_keeps_float32_masters(make_spec, storage, groups) -> None:
    exact = await weights_after(make_spec(), storage, groups, steps=1)
    async with started(make_spec(trainer={"dtype": "bfloat16"}, optimizer={"learningRate": 1e-7}), storage) as learner:
        await learner.train_step(groups)
        directory = await learner.save_weights(1)
        await learner.save_checkpoint(1, {})
    assert {tensor.dtype for tensor in load_file(directory / "model.safetensors").values()} == {torch.bfloat16}
    assert exact.keys() == load_file(directory / "model.safetensors").keys()
    async with started(make_spec(), storage) as learner:  # float32, to see the masters
        await learner.load_latest()
        masters = load_file(await learner.save_weights(2) / "model.safetensors")
    moved = largest_gap(masters, load_file(storage / "model" / "model.safetensors"))
    assert 0 < moved < 1e-6  # far below what bfloat16 could hold


async def test_a_gradient_that_is_no_number_stops_the_run_and_spares_the_weights(make_spec, storage, groups) -> None:
    segment = groups[0][0].segments[0]
    poisoned = replace(segment, logprobs=np.full_like(segment.logprobs, np.nan))
    broken = [[replace(groups[0][0], segments=(poisoned,)), *groups[0][1:]]]
    async with started(make_spec(), storage) as learner:
        with pytest.raises(TrainingDivergedError):
            await learner.train_step(broken)
        weights = load_file(await learner.save_weights(1) / "model.safetensors")
    assert largest_gap(weights, load_file(storage / "model" / "model.safetensors")) == 0


@pytest.mark.parametrize(
    ("trainer", "field"),
    [
        pytest.param({"sequenceParallel": 2}, "does not divide the 1 ranks", id="sequence-parallel-ranks"),
        pytest.param(
            {"sequenceParallel": 4, "processesPerReplica": 4}, "2 attention heads", id="sequence-parallel-heads"
        ),
        pytest.param({"cpuOffload": True}, "cpuOffload", id="offload-on-cpu"),
        pytest.param(
            {"lora": {"targetModules": ["q_proj", "qproj"]}},
            "targetModules names 'qproj', .*: there are down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj",
            id="no-such-layer",
        ),
        pytest.param({"lora": {"targetModules": ["mlp"]}}, "names 'mlp', which is none", id="no-linear-layer"),
        pytest.param({"lora": {"targetModules": ["lm_head"]}}, "names 'lm_head', which is none", id="output-layer"),
    ],
)
async def test_what_cannot_be_trained_is_refused_at_start(make_spec, storage, trainer, field: str) -> None:
    with pytest.raises(UnsupportedError, match=field):
        async with started(make_spec(trainer=trainer), storage):
            pass


@pytest.mark.parametrize(("window", "used", "refused"), [(700, True, True), (1_000, True, False), (700, False, False)])
def test_attempts_beyond_the_models_window_are_refused_at_start(
    make_spec, tiny_model: Path, tmp_path: Path, window: int, used: bool, refused: bool
) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    changed = config | {"sliding_window": window, "use_sliding_window": used}
    (tmp_path / "model" / "config.json").write_text(json.dumps(changed))
    spec = make_spec(rollout={"maxPromptTokens": 300, "maxResponseTokens": 500})
    with pytest.raises(UnsupportedError, match=r"800 together, .* window of 700") if refused else nullcontext():
        refuse_unsupported(spec, tmp_path / "model")
