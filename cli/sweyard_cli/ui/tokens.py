"""What the learner was given of an attempt: each token with its text, mask, logprob and weight version."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweyard_cli.ui.not_there import NotThereError
from sweyard_cli.ui.run_files import RunFiles
from sweyard_trainer.rollouts.reading import find_attempt, read_attempt
from sweyard_trainer.rollouts.seen_tokens import SeenTokens, read_seen
from sweyard_trainer.trajectory import Segment

TOKENIZER_FILE = Path("model", "tokenizer.json")


def read_tokens_view(files: RunFiles, attempt_id: str) -> dict[str, Any]:
    """Segments as columns; `texts` by token id, or why there is none. Raises NotThereError, RolloutFormatError."""
    path = find_attempt(files.index.paths(), attempt_id)
    if path is None:
        raise NotThereError(f"run {files.name} has recorded no attempt {attempt_id}")
    segments = read_attempt(path, attempt_id).segments
    seen = read_seen(path.parent, path.stem, attempt_id)
    ids = {token for segment in segments for token in segment.token_ids.tolist()}
    texts = texts_of(files.directory / TOKENIZER_FILE, ids)
    without = f"tokens are shown as numbers: the run keeps no whole {TOKENIZER_FILE}" if texts is None else ""
    columns = [columns_of(segment) | seen_columns(segment, seen.get(n)) for n, segment in enumerate(segments)]
    return {"segments": columns, "texts": texts or {}, "without_texts": without}


def seen_columns(segment: Segment, seen: SeenTokens | None) -> dict[str, list[float | None]]:
    """What the trainer saw, null of tokens that it did not train; nothing where it trained none.

    Where it is of another number of tokens it is not of these.
    """
    mask = segment.loss_mask.copy()
    mask[:1] = False  # nothing predicts it
    if seen is None or len(seen.logprobs) != mask.sum() or len(seen.entropies) != mask.sum():
        return {}
    return {"trainer_logprobs": _spread(seen.logprobs, mask), "entropies": _spread(seen.entropies, mask)}


def _spread(values: NDArray[np.float32], mask: NDArray[np.bool_]) -> list[float | None]:
    rest = iter(values.tolist())
    return [round(next(rest), 5) if is_trained else None for is_trained in mask]


def columns_of(segment: Segment) -> dict[str, list[Any]]:
    """One unbroken sequence."""
    return {
        "ids": segment.token_ids.tolist(),
        "mask": segment.loss_mask.astype(int).tolist(),
        "logprobs": [round(value, 5) for value in segment.logprobs.tolist()],
        "versions": segment.weight_versions.tolist(),
    }


def texts_of(tokenizer_file: Path, ids: set[int]) -> dict[int, str] | None:
    """Each token alone: part of a character shows as a replacement sign. None without a whole file."""
    if not tokenizer_file.is_file():
        return None
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
    except Exception as error:
        if type(error) is not Exception:  # which is all that the library raises for what it cannot read
            raise
        return None
    return {token: tokenizer.decode([token], skip_special_tokens=False) for token in sorted(ids)}
