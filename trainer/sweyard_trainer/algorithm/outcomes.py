"""What each outcome may do: infrastructure nothing, masked ones count in the baseline only."""

from collections.abc import Collection

from sweyard_sandbox.outcome import Outcome


def counts_in_baseline(outcome: Outcome) -> bool:
    """False for infrastructure: its reward says nothing about the policy."""
    return not outcome.is_infrastructure


def adds_loss(outcome: Outcome, mask_outcomes: Collection[str]) -> bool:
    """False for infrastructure and for the outcomes that compact filtering masks."""
    return counts_in_baseline(outcome) and outcome.value not in mask_outcomes
