"""Saved: a complete checkpoint, as its name tells it: `step-<n>` of the main phase, `warmup-<n>` of the warm-up."""

import re
from typing import NamedTuple

_NAME = re.compile(r"(step|warmup)-(0|[1-9]\d*)(?:\.([1-9]\d*))?")


class Saved(NamedTuple):
    """Later ones are greater: all of the warm-up come before those of the main phase."""

    is_main: bool
    """Of the main phase, which begins with step 0, the end of the warm-up."""
    step: int
    """Of its phase."""
    again: int = 0
    """How often this step had been saved before."""

    @property
    def name(self) -> str:
        """Of its directory."""
        name = f"{'step' if self.is_main else 'warmup'}-{self.step}"
        return f"{name}.{self.again}" if self.again else name

    @classmethod
    def parse(cls, name: str) -> "Saved | None":
        """Inverse of `name`; None for what no checkpoint is called."""
        match = _NAME.fullmatch(name)
        return cls(match[1] == "step", int(match[2]), int(match[3] or 0)) if match else None


def may_be_ours(name: str) -> bool:
    """Whether it is called like a checkpoint, or like what an earlier version left half done."""
    return name.startswith(("step-", "warmup-"))
