"""Own rollouts as demonstrations: attempts that earned enough.

Where the model has the very tokenizer that they were sampled with, their tokens are taken as they were recorded, with
their mask; else their transcripts are tokenised anew. Held-out attempts of a run are no demonstrations: of a run's
directory only the rollouts of its steps are read.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sweyard_trainer.demonstrations.chats import UnmaskableError, chat_messages, chat_segment, demand_length
from sweyard_trainer.demonstrations.files import DemonstrationFileError
from sweyard_trainer.demonstrations.recorded import Recorded
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.rollouts.files import ROLLOUTS, find_files, step_of
from sweyard_trainer.rollouts.reading import read_attempts
from sweyard_trainer.trajectory import Segment, Trajectory

logger = logging.getLogger(__name__)

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def take_rollouts(
    recorded: Recorded, run: Path, model: Path, renderer: ChatRenderer, *, min_reward: float, max_tokens: int | None
) -> None:
    """Attempts of a run's directory with at least `min_reward`; `model` is what will be trained.

    Raises DemonstrationFileError for a directory without rollouts, RolloutFormatError.
    """
    files = [file for label, file in find_files(run / ROLLOUTS).items() if step_of(label) is not None]
    if not files:
        raise DemonstrationFileError(f"{run} holds no rollouts of steps: name the directory of a run")
    as_sampled = same_tokenizer(run / "model", model)
    if not as_sampled:
        logger.warning("%s was sampled with another tokenizer: its transcripts are tokenised anew", run)

    def learn(attempt: Trajectory) -> Sequence[Segment]:
        if attempt.outcome.is_infrastructure:
            return []
        if attempt.reward < min_reward:
            recorded.left_out += 1
            return []
        if not as_sampled:
            return [chat_segment(chat_messages({"messages": attempt.transcript}), renderer, max_tokens)]
        segments = [replace(segment, routed_experts=None) for segment in attempt.segments if segment.loss_mask.any()]
        if not segments:
            raise UnmaskableError("has no token that was sampled")
        for segment in segments:
            demand_length(segment, max_tokens)
        return segments

    for file in files:
        recorded.take(str(file), read_attempts(file), learn)


def same_tokenizer(one: Path, other: Path) -> bool:
    """Whether the files of both that decide on tokens are the same."""
    return all(_content(one / name) == _content(other / name) for name in TOKENIZER_FILES) and one.is_dir()


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
