"""Which attempts a browser asks for: parameters of a request, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sweyard_cli.errors import UserError
from sweyard_cli.rollouts.selection import Condition, Selection
from sweyard_cli.ui.attempt_index import COLUMNS, LABEL
from sweyard_trainer.rollouts.codec import decode_plain
from sweyard_trainer.rollouts.surrogates import escape

SORTABLE = ("attempt_id", "task_id", "outcome", "reward", "num_turns", "num_sampled_tokens", "num_tokens")
_MOST_ROWS = 500
_DESCENDING = "-"


@dataclass(frozen=True, slots=True)
class Query:
    """A page of a sorted list."""

    selection: Selection
    label: str | None = None
    """Of a step or an evaluation."""
    group: str | None = None
    text: str = ""
    """Anywhere in the attempt's id, transcript, patch or grading."""
    sort: str = ""
    """One of SORTABLE, after `-` from high to low; empty: the newest file first."""
    offset: int = 0
    limit: int = 200

    @classmethod
    def parse(cls, asked: Mapping[str, str]) -> "Query":
        """Raises UserError."""
        sort = asked.get("sort", "")
        if sort.removeprefix(_DESCENDING) not in ("", *SORTABLE):
            raise UserError(f"sort {sort}: take one of {', '.join(SORTABLE)}")
        tokens = _count(asked, "min_tokens", 0)
        selection = Selection(
            outcomes=tuple(filter(None, asked.get("outcome", "").split(","))),
            reward=Condition.parse(asked["reward"]) if asked.get("reward") else None,
            task=f"*{asked['task']}*" if asked.get("task") else None,
            min_tokens=tokens or None,
        )
        return cls(
            selection=selection,
            label=asked.get("label") or None,
            group=asked.get("group") or None,
            text=asked.get("text", ""),
            sort=sort,
            offset=_count(asked, "offset", 0),
            limit=min(_MOST_ROWS, _count(asked, "limit", 200)),
        )

    def select(self, table: pa.Table) -> pa.Table:
        """The rows that it is true of but for `text`, in the order of `table`."""
        if self.label is not None:
            table = table.filter(pc.equal(table[LABEL], self.label))
        if self.group is not None:
            table = table.filter(pc.equal(table["group_id"], escape(self.group)))
        return self.selection.apply(table)

    def page(self, table: pa.Table) -> list[dict[str, Any]]:
        """Of selected rows the page that it asks for, in its order."""
        names = (*COLUMNS, LABEL)
        rows = self._newest(table) if not self.sort else self._sorted(table)
        return [row for batch in rows.combine_chunks().to_batches() for row in decode_plain(batch, names)]

    def _newest(self, table: pa.Table) -> pa.Table:
        last = max(0, table.num_rows - self.offset)
        rows = table.slice(max(0, last - self.limit), min(last, self.limit))
        return rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))

    def _sorted(self, table: pa.Table) -> pa.Table:
        order = "descending" if self.sort.startswith(_DESCENDING) else "ascending"
        return table.sort_by([(self.sort.removeprefix(_DESCENDING), order)]).slice(self.offset, self.limit)


def _count(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UserError(f"{name} {text[:40]}: give a whole number")
    return int(text)
