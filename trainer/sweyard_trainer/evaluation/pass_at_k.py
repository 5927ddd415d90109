"""What k attempts at a task are worth, without bias from how many there were."""

from collections import defaultdict
from collections.abc import Sequence
from math import comb


def pass_at_k(num_attempts: int, num_solved: int, k: int) -> float:
    """Chance that at least one of k attempts, drawn from these without replacement, solves the task.

    1 - C(n - c, k) / C(n, k): the unbiased estimator of Chen et al. 2021 (arXiv 2107.03374, equation 1).
    Raises ValueError unless 1 <= k <= num_attempts.
    """
    _demand(num_attempts, k)
    return 1 - comb(num_attempts - num_solved, k) / comb(num_attempts, k)


def best_at_k(scores: Sequence[float], solved: Sequence[bool], k: int) -> float:
    """Chance that the attempt that a verifier scores highest among k, drawn likewise, solves the task.

    Equal scores are chosen from by lot. Unbiased in the same way: over all subsets of k. A verifier that scores all
    alike gives pass@1; one that knows the solution gives pass@k. Raises ValueError unless 1 <= k <= len(scores).
    """
    count = len(scores)
    _demand(count, k)
    classes: dict[float, list[bool]] = defaultdict(list)
    for score, is_solved in zip(scores, solved, strict=True):
        classes[score].append(is_solved)
    chance, left = 0.0, count
    for score in sorted(classes, reverse=True):
        members = classes[score]
        highest = comb(left, k) - comb(left - len(members), k)  # subsets whose highest score this is
        chance += highest / comb(count, k) * sum(members) / len(members)
        left -= len(members)
    return chance


def reported_ks(num_attempts: int) -> list[int]:
    """1, 2, 4 and so on, and the number of attempts."""
    powers = [2**exponent for exponent in range(num_attempts.bit_length()) if 2**exponent <= num_attempts]
    return sorted({*powers, num_attempts})


def _demand(num_attempts: int, k: int) -> None:
    if not 1 <= k <= num_attempts:
        raise ValueError(f"k is {k}, but must be from 1 to the number of attempts, {num_attempts}")
