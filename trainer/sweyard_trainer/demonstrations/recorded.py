"""Recorded trajectories as demonstrations: a row that cannot be masked is refused in a sentence, the rest go on."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweyard_trainer.demonstrations.chats import UnmaskableError, chat_messages, chat_segment
from sweyard_trainer.demonstrations.files import DemonstrationFileError, NoRow, read_rows
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.trajectory import Segment

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Recorded:
    """What was read so far."""

    segments: list[Segment] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """`FILE row N WHY`."""
    left_out: int = 0
    """Attempts that earned too little."""

    def take(self, place: str, rows: Iterable[Any], learn: Callable[[Any], Sequence[Segment]]) -> None:
        """Rows of one file, numbered from 1; `learn` raises UnmaskableError."""
        for number, row in enumerate(rows, 1):
            try:
                self.segments += learn(row)
            except UnmaskableError as error:
                self.refused.append(f"{place} row {number} {error}")

    def checked(self) -> list[Segment]:
        """All segments; every refusal is logged, with how many there are. Raises DemonstrationFileError without any."""
        for sentence in self.refused:
            logger.warning("refused: %s", sentence)
        if self.refused:
            logger.warning("trajectories: %d refused, %d taken", len(self.refused), len(self.segments))
        if not self.segments:
            first = f"; the first of {len(self.refused)} refused: {self.refused[0]}" if self.refused else ""
            poor = f"; {self.left_out} attempts earned less than sft.minReward: lower it" if self.left_out else ""
            raise DemonstrationFileError(f"there is no trajectory to learn from{first}{poor}")
        return self.segments


def take_chats(recorded: Recorded, path: Path, renderer: ChatRenderer, max_tokens: int | None = None) -> None:
    """All rows of a chat file."""

    def learn(row: Any) -> Sequence[Segment]:
        if isinstance(row, NoRow):
            raise UnmaskableError("is no JSON")
        return [chat_segment(chat_messages(row), renderer, max_tokens)]

    recorded.take(str(path), read_rows(path), learn)
