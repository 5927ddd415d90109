"""A rule that several fields must keep together, said once for the API server, the operator and the command line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rule:
    """One sentence about one model.

    `holds` judges the whole, every default and preset value in place; `cel` is what the API server can judge from
    what was written, so it must let unset fields pass. A rule without `cel` needs the whole.
    """

    field: str
    """The field to point at, relative to the model, in YAML's spelling; empty for the model itself."""
    message: str
    """What is wrong and what to do, as the end of a sentence that begins with the field."""
    holds: Callable[[Any], bool]
    cel: str | None = None

    def as_kubernetes_validation(self) -> dict[str, str]:
        """This rule as an entry of x-kubernetes-validations."""
        if self.cel is None:
            raise ValueError(f"the rule on {self.field!r} has no CEL form")
        validation = {"rule": self.cel, "message": self.message}
        return validation | {"fieldPath": f".{self.field}"} if self.field else validation
