"""How an attempt ended: the one vocabulary from sandbox to loss."""

from enum import StrEnum


class Outcome(StrEnum):
    """Typed end of an attempt. Infrastructure outcomes never enter a baseline, an advantage or a denominator."""

    SOLVED = "solved"
    UNSOLVED = "unsolved"
    TRUNCATED = "truncated"
    """Ran out of tokens, whether in a reply or by an observation that filled the context."""
    MAX_TURNS = "max_turns"
    AGENT_TIMEOUT = "agent_timeout"
    AGENT_ERROR = "agent_error"
    """The agent program itself failed (a CLI that crashed, a login prompt)."""
    ENV_INFRA = "env_infra"
    """The sandbox or engine failed beyond the retries."""
    EVAL_INFRA = "eval_infra"
    """Grading failed for infrastructure's sake beyond the retries."""

    @property
    def is_infrastructure(self) -> bool:
        """True if the model is not to blame."""
        return self in (Outcome.ENV_INFRA, Outcome.EVAL_INFRA)
