from dataclasses import replace

import numpy as np
import pytest

from sweyard_api.algorithm import Algorithm, Overlong
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.learner.batches import (
    as_if_sampled_here,
    build_attempts,
    num_response_tokens,
    shaped_reward,
    split_minibatches,
    supervised_sequences,
    to_sequence,
    weigh,
)
from sweyard_trainer.learner.schedule import Phase, phase_of

MAX_RESPONSE = 100


def build(groups, algorithm):
    return build_attempts(groups, [[trajectory.reward for trajectory in group] for group in groups], algorithm)


def test_infrastructure_is_in_no_baseline_and_no_denominator(make_trajectory) -> None:
    algorithm = Algorithm(estimator="dr_grpo", loss_aggregation="sequence_mean_token_sum")
    scored = [make_trajectory(1, seed=1), make_trajectory(0, seed=2)]
    lost = make_trajectory(0, seed=3, outcome=Outcome.ENV_INFRA)
    attempts = build([[*scored, lost]], algorithm)
    assert [attempt.advantage for attempt in attempts] == pytest.approx([0.5, -0.5])
    assert {sequence.weight for sequence in weigh(attempts, algorithm, MAX_RESPONSE)} == {0.5}


def test_masked_outcome_shapes_the_baseline_but_adds_no_loss(make_trajectory) -> None:
    algorithm = Algorithm(estimator="dr_grpo", mask_outcomes=["truncated"])
    cut = make_trajectory(0, seed=2, outcome=Outcome.TRUNCATED)
    attempts = build([[make_trajectory(1, seed=1), cut]], algorithm)
    assert [attempt.advantage for attempt in attempts] == pytest.approx([0.5])


def test_dropped_outcome_is_in_no_baseline(make_trajectory) -> None:
    algorithm = Algorithm(estimator="dr_grpo", drop_outcomes=["truncated"])
    cut = make_trajectory(0, seed=3, outcome=Outcome.TRUNCATED)
    attempts = build([[make_trajectory(1, seed=1), make_trajectory(0, seed=2), cut]], algorithm)
    assert [attempt.advantage for attempt in attempts] == pytest.approx([0.5, -0.5])


def test_trained_tokens_are_fresh_if_the_weights_that_are_trained_sampled_them(make_segment, make_trajectory) -> None:
    segment = make_segment(8)
    segment.weight_versions[:] = [-1, -1, -1, -1, 2, 3, 3, 2]
    group = [make_trajectory(1, segments=(segment,)), make_trajectory(0, segments=(make_segment(8),))]
    rewards = [[1.0, 0.0]]
    fresh = [attempt.sequences[0].fresh for attempt in build_attempts([group], rewards, Algorithm(), 3)]
    assert [np.flatnonzero(marks).tolist() for marks in fresh] == [[5, 6], []]
    unknown = build_attempts([group], rewards, Algorithm())
    assert not any(attempt.sequences[0].fresh.any() for attempt in unknown)


def test_overlong_attempts_lose_reward_by_their_longest_response(make_segment, make_trajectory) -> None:
    # Half of each segment is the prompt: responses of 10 and 45 tokens; limit 50, buffer 20: 15 of 20 over the edge.
    forked = make_trajectory(1, segments=(make_segment(20, 1), make_segment(90, 2)))
    algorithm = Algorithm(overlong=Overlong(buffer_tokens=20, penalty=0.8))
    assert shaped_reward(forked, algorithm, 50) == pytest.approx(1 - 0.8 * 15 / 20)
    assert shaped_reward(forked, Algorithm(), 50) == 1
    assert shaped_reward(make_trajectory(1, length=20), algorithm, 50) == 1


def test_a_segment_without_sampled_tokens_has_no_response(make_segment) -> None:
    segment = make_segment(10)
    segment.loss_mask[:] = False
    assert num_response_tokens(segment) == 0
    assert to_sequence(segment, 1.0).num_tokens == 1


def test_a_sequence_ends_with_its_last_trained_token_and_keeps_its_temperature(make_segment) -> None:
    segment = make_segment(10)
    segment.loss_mask[[0, 9]] = [True, False]  # nothing predicts the first token
    sequence = to_sequence(segment, 0.7)
    assert (sequence.num_tokens, sequence.num_trained, sequence.temperature) == (9, 4, 0.7)
    assert sequence.token_ids.tolist() == segment.token_ids[:9].tolist()
    assert sequence.engine_logprobs.tolist() == segment.logprobs[:9].tolist()
    assert segment.loss_mask[0], "the record is left as it was"


def test_unknown_engine_logprobs_become_the_policys_own_and_the_record_stays(make_segment) -> None:
    segment = make_segment(6, logprob=-4.0)
    segment.logprobs[4] = np.nan
    sequence = replace(to_sequence(segment, 1.0), old_logprobs=np.array([-1.0, -2.0, -3.0], np.float32))
    assert as_if_sampled_here(sequence).engine_logprobs.tolist() == [0, 0, 0, -4, -2, -4]
    assert np.isnan(segment.logprobs[4])


def test_constant_aggregation_divides_by_the_configs_constant_or_the_longest_response(make_trajectory) -> None:
    group = [make_trajectory(1, seed=1), make_trajectory(0, seed=2)]
    own = Algorithm(loss_aggregation="constant", loss_constant=10)
    assert [sequence.weight for sequence in weigh(build([group], own), own, 100)] == pytest.approx([1 / 20] * 2)
    default = Algorithm(loss_aggregation="constant")
    weights = [sequence.weight for sequence in weigh(build([group], default), default, 100)]
    assert weights == pytest.approx([1 / 200] * 2)


@pytest.mark.parametrize(("placement", "kept"), [("loss", 2), ("reward", 0)])
def test_a_penalty_in_the_loss_keeps_sequences_without_advantage(make_trajectory, placement: str, kept: int) -> None:
    algorithm = Algorithm.model_validate({"kl": {"coefficient": 0.1, "placement": placement}})
    silent = [make_trajectory(0, seed=seed) for seed in range(2)]
    assert len(weigh(build([silent], algorithm), algorithm, MAX_RESPONSE)) == kept


def test_a_silent_group_among_infrastructure_failures_alone_is_skipped(make_trajectory) -> None:
    lost = [make_trajectory(0, group="a", outcome=Outcome.ENV_INFRA)]
    telling = [make_trajectory(reward, group="b", seed=2) for reward in (0, 1)]
    assert len(build([lost, telling], Algorithm())) == 2


def test_forked_segments_share_an_advantage_and_one_denominator(make_segment, make_trajectory) -> None:
    algorithm = Algorithm(estimator="dr_grpo", loss_aggregation="sequence_mean_token_mean")
    forked = make_trajectory(1, segments=(make_segment(8, 1), make_segment(12, 2)))
    sequences = weigh(build([[forked, make_trajectory(0, length=20, seed=3)]], algorithm), algorithm, MAX_RESPONSE)
    assert [sequence.advantage for sequence in sequences] == pytest.approx([0.5, 0.5, -0.5])
    assert [sequence.weight for sequence in sequences] == pytest.approx([1 / 20] * 3)


def test_sequences_that_cannot_move_the_weights_are_left_out_after_weighing(make_trajectory) -> None:
    algorithm = Algorithm(estimator="dr_grpo", loss_aggregation="sequence_mean_token_sum")
    silent = [make_trajectory(0.1, group="a", seed=seed) for seed in range(2)]
    telling = [make_trajectory(reward, group="b", seed=2) for reward in (0, 1)]
    attempts = build([silent, telling], algorithm)
    assert [sequence.weight for sequence in weigh(attempts, algorithm, MAX_RESPONSE)] == [0.25, 0.25]
    with_bonus = algorithm.model_copy(update={"entropy_coefficient": 0.01})
    assert len(weigh(attempts, with_bonus, MAX_RESPONSE)) == 4


def test_a_batch_of_infrastructure_alone_leaves_no_attempt(make_trajectory) -> None:
    assert build([[make_trajectory(0, outcome=Outcome.EVAL_INFRA)]], Algorithm()) == []


def test_minibatches_partition_the_attempts_and_repeat_by_seed(make_trajectory) -> None:
    attempts = build([[make_trajectory(seed % 2, seed=seed) for seed in range(7)]], Algorithm())
    parts = split_minibatches(attempts, 3, seed=5)
    assert sorted(len(part) for part in parts) == [2, 2, 3]
    assert sorted(id(attempt) for part in parts for attempt in part) == sorted(map(id, attempts))
    assert split_minibatches(attempts, 3, seed=5) == parts
    assert len(split_minibatches(attempts, 100, seed=5)) == 7


def test_supervised_weights_sum_to_one_over_trained_tokens(make_segment) -> None:
    sequences = supervised_sequences([make_segment(10, 1), make_segment(30, 2)])
    assert sum(sequence.weight * sequence.num_trained for sequence in sequences) == pytest.approx(1)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        pytest.param("constant", [0.5, 1.0, 1.0, 1.0, 1.0, 1.0], id="constant"),
        pytest.param("linear", [0.5, 1.0, 1.0, 0.75, 0.5, 0.25], id="linear"),
        pytest.param("cosine", [0.5, 1.0, 1.0, 0.853553, 0.5, 0.146447], id="cosine"),
    ],
)
def test_learning_rate_rises_then_follows_its_schedule(schedule: str, expected: list[float]) -> None:
    phase = Phase("rl", 1.0, warmup_updates=2, total_updates=6, schedule=schedule)
    assert [phase.rate(update) for update in range(6)] == pytest.approx(expected, abs=1e-6)


def test_warm_up_and_main_phase_have_their_own_rates(make_spec) -> None:
    spec = make_spec(warmup={"steps": 40, "learningRate": 0.01}, algorithm={"minibatches": 4})
    assert phase_of("sft", spec).learning_rate == 0.01
    assert phase_of("sft", spec).total_updates == 40
    assert phase_of("rl", spec).total_updates == 40
    sft = make_spec(mode="sft", steps=7, optimizer={"learningRate": 0.002})
    assert (phase_of("sft", sft).learning_rate, phase_of("sft", sft).total_updates) == (0.002, 7)


def with_trained(segment, places):
    segment.loss_mask[:] = False
    segment.loss_mask[places] = True
    return segment


def test_rewards_must_match_the_groups(make_trajectory) -> None:
    group = [make_trajectory(1, seed=1), make_trajectory(0, seed=2)]
    with pytest.raises(ValueError, match="shorter"):
        build_attempts([group], [[1.0]], Algorithm())
    with pytest.raises(ValueError, match="shorter"):
        build_attempts([group, group], [[1.0, 0.0]], Algorithm())


def test_an_attempt_needs_one_sampled_token_to_add_loss(make_segment, make_trajectory) -> None:
    silent = make_trajectory(1, segments=(with_trained(make_segment(6), []),))
    brief = make_trajectory(0, segments=(with_trained(make_segment(6), [3]),))
    (attempt,) = build([[silent, brief]], Algorithm(estimator="dr_grpo"))
    assert attempt.advantage == -0.5
    assert type(attempt.advantage) is float


def test_segments_without_trained_tokens_are_left_out_and_those_with_one_are_kept(
    make_segment, make_trajectory
) -> None:
    segments = (with_trained(make_segment(6), []), with_trained(make_segment(6), [1]))
    algorithm = Algorithm(estimator="dr_grpo")
    attempts = build([[make_trajectory(1, segments=segments), make_trajectory(0)]], algorithm)
    weighed = weigh(attempts, algorithm, MAX_RESPONSE)
    assert [sequence.num_trained for sequence in weighed] == [1, 12]
    supervised = supervised_sequences(segments)
    assert [(sequence.num_trained, sequence.weight, sequence.temperature) for sequence in supervised] == [(1, 1.0, 1.0)]
