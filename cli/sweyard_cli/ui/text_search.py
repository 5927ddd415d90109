"""Which attempts hold a text: transcripts, patches and grading logs are read, newest first; none of it is kept.

Decompressing takes twice as long as looking, and both leave the interpreter free: a few files are read at a time, by
threads that all who search share, so that many of them take no more memory than one.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sweyard_cli.ui.attempt_index import LABEL
from sweyard_cli.ui.file_stamp import Stamp, file_stamp
from sweyard_trainer.rollouts.reading import RolloutFormatError, iterate_batches
from sweyard_trainer.rollouts.surrogates import escape
from sweyard_trainer.rollouts.trigrams import SEARCHED, texts_of

ANSWER_SECONDS = 0.5
MOST_ANSWER_SECONDS = 8.0
_MOST_TEXTS = 16
"""That are remembered: what one typed before is often looked for again."""


class Found(NamedTuple):
    """What is known so far."""

    attempts: pa.Table
    searched: float
    """Share of the files; 1 when all is known."""
    unread: Sequence[str] = ()
    """A sentence for each file that could not be read."""


class _InFile(NamedTuple):
    stamp: Stamp | None
    ids: pa.Array
    trouble: str = ""


@dataclass(slots=True)
class _Sought:
    """What is known of one text."""

    files: dict[Path, _InFile] = field(default_factory=dict)
    seconds: float = 0.0
    """That were spent on it."""

    def knows(self, path: Path) -> bool:
        """Whether the file is as it was when it was read."""
        return path in self.files and self.files[path].stamp == file_stamp(path)


class TextSearch:
    """Remembers what it found in files that do not change. For several threads."""

    def __init__(self, *, num_readers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        """`num_readers` files are read at a time, of each a row group."""
        self._num_readers = num_readers
        self._readers = ThreadPoolExecutor(num_readers, thread_name_prefix="search")
        self._clock = clock
        self._sought: dict[str, _Sought] = {}
        self._lock = threading.Lock()

    def among(self, table: pa.Table, paths: Mapping[str, Path], text: str, *, seconds: float = ANSWER_SECONDS) -> Found:
        """The attempts of `table` in which `text` occurs, and how far it came; asked again it goes on from there.

        The first answer takes about `seconds`, each later one about as long as all before it, so that there are few.
        Capitals count if `text` has any. Only the files at `paths`, by label, that hold one of them are read, some at
        least.
        """
        began, sought = self._clock(), self._of_text(text)
        late = began + min(MOST_ANSWER_SECONDS, max(seconds, sought.seconds))
        labels = set(table[LABEL].unique().to_pylist())
        files = [paths[label] for label in reversed(list(paths)) if label in labels]
        unread = [path for path in files if not sought.knows(path)]
        while unread:
            together, unread = unread[: self._num_readers], unread[self._num_readers :]
            told = self._readers.map(lambda path: _search(path, escape(text)), together)
            sought.files.update(zip(together, told, strict=True))
            if self._clock() >= late:
                break
        sought.seconds += self._clock() - began
        left = set(unread)
        known = [sought.files[path] for path in files if path not in left]
        ids = pa.concat_arrays([*(one.ids for one in known), pa.array([], pa.string())])
        return Found(
            table.filter(pc.is_in(table["attempt_id"], ids)),
            len(known) / len(files) if files else 1.0,
            [one.trouble for one in known if one.trouble],
        )

    def _of_text(self, text: str) -> _Sought:
        with self._lock:
            sought = self._sought.pop(text, None) or _Sought()
            while len(self._sought) >= _MOST_TEXTS:
                self._sought.pop(next(iter(self._sought)))
            self._sought[text] = sought
            return sought


def _search(path: Path, text: str) -> _InFile:
    """A file that is gone was a journal, and its attempts are in another one by now."""
    stamp = file_stamp(path)
    try:
        return _InFile(stamp, _ids_in(path, text))
    except FileNotFoundError:
        return _InFile(stamp, pa.array([], pa.string()))
    except (RolloutFormatError, OSError) as error:
        return _InFile(stamp, pa.array([], pa.string()), str(error))


def _ids_in(path: Path, text: str) -> pa.Array:
    found = [batch["attempt_id"].filter(_holds(batch, text)) for batch in iterate_batches(path, SEARCHED, holding=text)]
    return pa.concat_arrays([*found, pa.array([], pa.string())])


def _holds(batch: pa.RecordBatch, text: str) -> pa.Array:
    ignore_case = text == text.lower()
    *masks, said = (pc.match_substring(texts, text, ignore_case=ignore_case) for texts in texts_of(batch))
    rows = pc.list_parent_indices(batch["transcript"]).filter(said).unique()
    found = pc.is_in(pa.array(range(batch.num_rows), pa.int64()), rows.cast(pa.int64()))
    for mask in masks:
        found = pc.or_(found, mask)
    return found
