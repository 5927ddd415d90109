"""The interval of a share of solved attempts, where attempts at one task are alike."""

import math
from collections.abc import Sequence

Z_95 = 1.959963984540054


def wilson_interval(share: float, trials: float, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval of a share (JASA 22, 1927); (0, 1) without trials."""
    if trials == 0:
        return 0.0, 1.0
    denominator = 1 + z * z / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # Rounding must not push the share itself out of its interval.
    return max(0.0, min(share, (centre - spread) / denominator)), min(1.0, max(share, (centre + spread) / denominator))


def effective_trials(shares: Sequence[float], num_attempts: int) -> float:
    """So many independent attempts are worth as much as `num_attempts` at len(shares) tasks, of which these were
    solved.

    The binomial variance over the variance between tasks (Kish's design effect), never less than one a task and never
    more than all. Wilson's interval on this number is one of the better ones for clustered data (Dean and Pagano, J.
    Survey Statistics and Methodology 3, 2015). With one attempt a task it is the number of tasks.
    """
    num_tasks = len(shares)
    if num_tasks < 2:
        return float(num_tasks)
    mean = sum(shares) / num_tasks
    binomial = mean * (1 - mean)
    if binomial == 0:  # nothing differs, so nothing is known about how alike attempts at one task are
        return float(num_tasks)
    between = sum((share - mean) ** 2 for share in shares) / (num_tasks * (num_tasks - 1))
    return min(float(num_attempts), max(float(num_tasks), binomial / between)) if between else float(num_attempts)
