"""One thing that the doctor found."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence, with the remedy where there is something to mend."""

    level: Level
    message: str
