"""Whether a group can teach anything under a run's own rules; dynamic sampling refills those that cannot."""

from collections.abc import Callable, Sequence

from sweyard_api.algorithm import Algorithm
from sweyard_trainer.algorithm.learning_signal import has_signal
from sweyard_trainer.custom import load_group_filter
from sweyard_trainer.learner.batches import counts, shaped_reward
from sweyard_trainer.trajectory import Trajectory

GroupSignal = Callable[[Sequence[Trajectory]], bool]


def group_signal(algorithm: Algorithm, max_response_tokens: int) -> GroupSignal:
    """Judges a group by the attempts that count and by their rewards less what length costs, then by the user's filter.

    A KL penalty in the reward is not known before the step is trained, and not looked at. Raises CustomCodeError.
    """
    keep = load_group_filter(algorithm)

    def teaches(group: Sequence[Trajectory]) -> bool:
        counted = [attempt for attempt in group if counts(attempt, algorithm)]
        rewards = [shaped_reward(attempt, algorithm, max_response_tokens) for attempt in counted]
        return has_signal(rewards) and bool(keep([group]))

    return teaches
