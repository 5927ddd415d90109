"""Which attempts hold a text: every transcript, patch and grading log is read, none of it is kept."""

import threading
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sweyard_cli.ui.attempt_index import LABEL
from sweyard_cli.ui.file_stamp import Stamp, file_stamp
from sweyard_trainer.rollouts.reading import iterate_batches
from sweyard_trainer.rollouts.surrogates import escape

_COLUMNS = ("attempt_id", "transcript", "patch", "grading_log", "infra_reason")
_PLAIN = ("attempt_id", "patch", "grading_log", "infra_reason")
_MOST_REMEMBERED = 2_000
"""Files times texts: what one typed before is often looked for again."""


class TextSearch:
    """Remembers what it found in files that do not change. For several threads."""

    def __init__(self) -> None:
        self._found: dict[tuple[Path, Stamp | None, str], pa.Array] = {}
        self._lock = threading.Lock()

    def among(self, table: pa.Table, paths: Mapping[str, Path], text: str) -> pa.Table:
        """The attempts of `table` in which `text` occurs. Capitals count if `text` has any. Raises RolloutFormatError.

        Only the files at `paths`, by label, that hold one of them are read.
        """
        labels = set(table[LABEL].unique().to_pylist())
        found = [self._in_file(path, escape(text)) for label, path in paths.items() if label in labels]
        ids = pa.concat_arrays(found) if found else pa.array([], pa.string())
        return table.filter(pc.is_in(table["attempt_id"], ids))

    def _in_file(self, path: Path, text: str) -> pa.Array:
        key = (path, file_stamp(path), text)
        with self._lock:
            known = self._found.get(key)
        if known is not None:
            return known
        found = [batch["attempt_id"].filter(_holds(batch, text)) for batch in iterate_batches(path, _COLUMNS)]
        ids = pa.concat_arrays(found) if found else pa.array([], pa.string())
        with self._lock:
            while len(self._found) >= _MOST_REMEMBERED:
                self._found.pop(next(iter(self._found)))
            self._found[key] = ids
        return ids


def _holds(batch: pa.RecordBatch, text: str) -> pa.Array:
    ignore_case = text == text.lower()
    masks = [pc.match_substring(batch[name], text, ignore_case=ignore_case) for name in _PLAIN]
    transcript = batch["transcript"]
    said = pc.match_substring(pc.list_flatten(transcript).field("content"), text, ignore_case=ignore_case)
    rows = pc.list_parent_indices(transcript).filter(said).unique()
    masks.append(pc.is_in(pa.array(range(batch.num_rows), pa.int64()), rows.cast(pa.int64())))
    found = masks[0]
    for mask in masks[1:]:
        found = pc.or_(found, mask)
    return found
