"""AttemptIndex: the short columns of all attempts of a run in memory, so that lists and counts need no file.

A file is read again only once it has changed; one that cannot be read is told, and hides no other. A hundred thousand
attempts take about 20 MB, and the set of trigrams that a file has in its texts 8 KiB.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sweyard_cli.ui.file_stamp import Stamp, file_stamp
from sweyard_trainer.rollouts.files import find_files
from sweyard_trainer.rollouts.reading import RolloutFormatError, read_columns
from sweyard_trainer.rollouts.schema import SCHEMA
from sweyard_trainer.rollouts.surrogates import escape
from sweyard_trainer.rollouts.trigrams import Trigrams, may_hold, trigrams_of_file

COLUMNS = (
    "attempt_id", "task_id", "group_id", "outcome", "reward", "official", "num_turns", "num_tokens",
    "num_sampled_tokens",
)  # fmt: skip
LABEL = "label"
"""Column with the label of the rollout file that an attempt is in."""


@dataclass(frozen=True, slots=True)
class _Known:
    path: Path
    stamp: Stamp
    table: pa.Table
    trigrams: Trigrams | None
    """Of its texts."""
    trouble: str = ""
    """Why it could not be read."""


class AttemptIndex:
    """Of the rollout files in one directory. For several threads."""

    def __init__(self, rollouts: Path) -> None:
        self._rollouts = rollouts
        self._known: dict[str, _Known] = {}
        self._table = _empty()
        self._lock = threading.Lock()

    def table(self) -> pa.Table:
        """COLUMNS and LABEL of every attempt, file by file."""
        with self._lock:
            known = {label: found for label, path in self._files().items() if (found := self._read(label, path))}
            if known != self._known:
                self._known = known
                self._table = pa.concat_tables(one.table for one in known.values()) if known else _empty()
            return self._table

    def paths(self, *, holding: str = "") -> Mapping[str, Path]:
        """Files by label, as `table` has seen them, but for those that cannot have the text `holding`, or be read."""
        self.table()
        text = escape(holding)
        known = self._known.items()
        return {label: one.path for label, one in known if not one.trouble and may_hold(one.trigrams, text)}

    def unread(self) -> Mapping[str, str]:
        """By label a sentence for each file that cannot be read."""
        self.table()
        return {label: one.trouble for label, one in self._known.items() if one.trouble}

    def stamp(self) -> object:
        """Differs when there is news."""
        return tuple(file_stamp(path) for path in self._files().values())

    def _files(self) -> dict[str, Path]:
        return find_files(self._rollouts)

    def _read(self, label: str, path: Path) -> _Known | None:
        """None for a journal that has just given way to a sealed file."""
        before = self._known.get(label)
        stamp = file_stamp(path)
        if stamp is None:
            return None
        if before is not None and (before.path, before.stamp) == (path, stamp):
            return before
        try:
            table = read_columns(path, COLUMNS)
        except FileNotFoundError:
            return None
        except (RolloutFormatError, OSError) as error:
            return _Known(path, stamp, _empty(), None, str(error))
        trigrams = trigrams_of_file(table.schema.metadata)
        labelled = table.append_column(LABEL, pa.repeat(pa.scalar(label), table.num_rows))
        return _Known(path, stamp, labelled.replace_schema_metadata(), trigrams)


def count_outcomes(table: pa.Table) -> dict[str, dict[str, int]]:
    """Number of attempts by label and outcome."""
    counted = table.group_by([LABEL, "outcome"]).aggregate([("attempt_id", "count")])
    found: dict[str, dict[str, int]] = {}
    for row in counted.to_pylist():
        found.setdefault(row[LABEL], {})[row["outcome"]] = row["attempt_id_count"]
    return found


def mean_turns(table: pa.Table) -> dict[str, float]:
    """Replies an attempt, by label."""
    rows = table.group_by(LABEL).aggregate([("num_turns", "mean")]).to_pylist()
    return {row[LABEL]: row["num_turns_mean"] for row in rows}


def members_of(table: pa.Table, group_id: str) -> pa.Table:
    """The attempts of one group."""
    return table.filter(pc.equal(table["group_id"], group_id))


def _empty() -> pa.Table:
    return pa.schema([*(SCHEMA.field(name) for name in COLUMNS), pa.field(LABEL, pa.string())]).empty_table()
