"""Ranks, sequence parallelism, packing and accumulation change nothing: all train as plain PyTorch does.

The truth is transformers alone in one process: padded rows, its own attention, whole logits, one backward pass a step.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.trainer.learner.rank_processes import ForkedRanks, rank_processes
from tests.warm_interpreter import WarmInterpreter
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.learner.learner import Learner
from sweyard_trainer.trajectory import Trajectory

LOSS_TOLERANCE = 1e-5
WEIGHT_TOLERANCE = 5e-6
"""After six updates of at most 1e-3 each: float32 sums in another order, through Adam with a large epsilon."""

STEPS, PASSES = 3, 2
LONGEST, SHORTEST = 29, 21
TEMPERATURE = 0.8
LEARNING_RATE, EPSILON, WEIGHT_DECAY = 1e-3, 1e-5, 0.1

Truth = tuple[list[float], dict[str, Tensor]]


@dataclass(frozen=True)
class Layout:
    """How sequences lie in micro-batches."""

    packed: bool
    accumulation: int
    """Micro-batches of each rank in an update."""

    @property
    def sequences_per_microbatch(self) -> int:
        return 2 if self.packed else 1

    @property
    def token_budget(self) -> int:
        """No third sequence fits into a packed micro-batch, no second one into an unpacked."""
        return LONGEST * self.sequences_per_microbatch

    def __str__(self) -> str:
        return f"{'packed' if self.packed else 'unpacked'}-accumulation{self.accumulation}"


LAYOUTS = [Layout(packed, accumulation) for packed, accumulation in product([True, False], [1, 4])]
COMBINATIONS = [
    (num_ranks, sequence_parallel, layout)
    for num_ranks in (1, 2, 4)
    for sequence_parallel in (1, 2)[:num_ranks]
    for layout in LAYOUTS
]


@pytest.fixture
def group(make_trajectory: Callable[..., Trajectory]) -> Callable[[int], list[Trajectory]]:
    """So many attempts that are trained, of mixed lengths, and one that only counts in their baseline."""

    def make(num_trained: int) -> list[Trajectory]:
        lengths = [SHORTEST + (5 * seed) % (LONGEST - SHORTEST + 1) for seed in range(num_trained)]
        trained = [
            make_trajectory(1 - 2 * (seed % 2), seed=seed, length=length, temperature=TEMPERATURE)
            for seed, length in enumerate(lengths)
        ]
        return [*trained, make_trajectory(0, seed=num_trained, outcome=Outcome.TRUNCATED)]

    return make


@pytest.fixture
def spec_of(make_spec: Callable[..., TrainingRunSpec]) -> Callable[..., TrainingRunSpec]:
    def make(num_ranks: int, sequence_parallel: int, layout: Layout) -> TrainingRunSpec:
        return make_spec(
            trainer={
                "processesPerReplica": num_ranks,
                "sequenceParallel": sequence_parallel,
                "tokensPerMicrobatch": -(-layout.token_budget // sequence_parallel),
            },
            algorithm={"estimator": "dr_grpo", "normalizeByStd": False, "maskOutcomes": ["truncated"]}
            | {"epochsPerBatch": PASSES},
            optimizer={"learningRate": LEARNING_RATE, "epsilon": EPSILON, "weightDecay": WEIGHT_DECAY},
        )

    return make


@pytest.fixture
def truth(tiny_model: Path, group: Callable[[int], list[Trajectory]]) -> Callable[[int], Truth]:
    known: dict[int, Truth] = {}

    def of(num_trained: int) -> Truth:
        if num_trained not in known:
            known[num_trained] = train_plainly(tiny_model, group(num_trained))
        return known[num_trained]

    return of


def train_plainly(directory: Path, group: list[Trajectory]) -> Truth:
    """Loss of the last update of each step, and the weights after all."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95), eps=EPSILON)
    losses = []
    for _ in range(STEPS):
        old = plain_logprobs(model, group).detach()
        for _ in range(PASSES):
            loss = plain_loss(plain_logprobs(model, group), old, group)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        losses.append(loss.item())
    return losses, {name: tensor.detach() for name, tensor in model.state_dict().items()}


def plain_logprobs(model: Any, group: list[Trajectory]) -> Tensor:
    """[B, T - 1] of each following token; the last attempt is not trained."""
    rows = [torch.from_numpy(attempt.segments[0].token_ids.astype(np.int64)) for attempt in group[:-1]]
    ids = pad_sequence(rows, batch_first=True)
    attended = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    logits = model(input_ids=ids, attention_mask=attended).logits[:, :-1] / TEMPERATURE
    chosen: Tensor = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]
    return chosen


def plain_loss(logprobs: Tensor, old: Tensor, group: list[Trajectory]) -> Tensor:
    """PPO's clipped loss with truncated importance sampling, averaged over all sampled tokens."""
    sampled = pad_sequence([torch.from_numpy(a.segments[0].loss_mask) for a in group[:-1]], batch_first=True)[:, 1:]
    engine = pad_sequence([torch.from_numpy(a.segments[0].logprobs) for a in group[:-1]], batch_first=True)[:, 1:]
    rewards = torch.tensor([float(attempt.reward) for attempt in group])
    advantages = (rewards - rewards.mean())[:-1, None]
    ratio = (logprobs - old).exp()
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    correction = (old - engine).exp().clamp(max=2.0)
    return -(correction * surrogate)[sampled].mean()


async def check(
    connections: Any, spec: TrainingRunSpec, storage: Path, layout: Layout, group: Any, truth: Callable[[int], Truth]
) -> None:
    """That ranks with this config train as they should."""
    ranks = ForkedRanks(connections, spec, storage)
    learner = Learner(spec, storage, ranks, CheckpointStore(str(storage / "checkpoints")))
    columns = ranks.size // spec.trainer.sequence_parallel
    num_trained = columns * layout.accumulation * layout.sequences_per_microbatch
    await learner.start()
    losses = [(await learner.train_step([group(num_trained)]))["loss"] for _ in range(STEPS)]
    weights = load_file(await learner.save_weights(1) / "model.safetensors")
    await learner.stop()

    assert ranks.microbatches == [[layout.sequences_per_microbatch] * layout.accumulation] * ranks.size
    true_losses, true_weights = truth(num_trained)
    assert losses == pytest.approx(true_losses, abs=LOSS_TOLERANCE)
    assert weights.keys() == true_weights.keys()
    for name, tensor in true_weights.items():
        torch.testing.assert_close(weights[name], tensor, atol=WEIGHT_TOLERANCE, rtol=0)


@pytest.fixture(scope="module")
def four_processes(warm_interpreter: WarmInterpreter) -> Iterator[Any]:
    with rank_processes(warm_interpreter, 4) as connections:
        yield connections


@pytest.mark.parametrize("layout", [LAYOUTS[1], LAYOUTS[2]], ids=str)
async def test_four_ranks_that_share_sequences_by_twos_train_as_plain_pytorch(
    four_processes, spec_of, storage, group, truth, layout: Layout
) -> None:
    await check(four_processes, spec_of(4, 2, layout), storage, layout, group, truth)


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
async def test_every_layout_on_any_number_of_ranks_trains_as_plain_pytorch(
    warm_interpreter, spec_of, storage, group, truth, num_ranks: int
) -> None:
    with rank_processes(warm_interpreter, num_ranks) as connections:
        for _, sequence_parallel, layout in (one for one in COMBINATIONS if one[0] == num_ranks):
            print(f"{num_ranks} ranks, sequence parallel {sequence_parallel}, {layout}")
            await check(connections, spec_of(num_ranks, sequence_parallel, layout), storage, layout, group, truth)
