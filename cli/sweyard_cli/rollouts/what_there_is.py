"""For who asked for attempts and found none: what there is of that by which they chose."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sweyard_cli.figures import plural
from sweyard_cli.report.text import visible
from sweyard_cli.rollouts.selection import Selection, chosen_files
from sweyard_trainer.rollouts.reading import read_columns
from sweyard_trainer.rollouts.surrogates import unescape

_MOST_NAMED = 5


def what_there_is(directory: Path, selection: Selection) -> str:
    """One line. Raises UserError, RolloutFormatError."""
    columns = ["attempt_id", *selection.columns]
    table = pa.concat_tables(
        read_columns(path, columns).replace_schema_metadata() for path in chosen_files(directory, selection).values()
    )
    of_it = "" if selection.step is None else f" of step {selection.step}"
    if not table.num_rows:
        return f"no attempts{of_it} have ended yet"
    return "; ".join((f"no such attempts among the {plural(table.num_rows, 'attempt')}{of_it}", *_told(table)))


def _told(table: pa.Table) -> Iterator[str]:
    present = set(table.column_names)
    if "outcome" in present:
        counts = sorted(pc.value_counts(table["outcome"]).to_pylist(), key=lambda entry: -entry["counts"])
        yield "outcomes: " + ", ".join(f"{visible(entry['values'])} ({entry['counts']})" for entry in counts)
    if "reward" in present:
        yield f"rewards: {_range(table['reward'])}"
    if "task_id" in present:
        ids = sorted(visible(unescape(task)) for task in table["task_id"].unique().to_pylist())
        more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
        yield f"tasks: {', '.join(ids[:_MOST_NAMED])}{more}"
    if "num_sampled_tokens" in present:
        yield f"sampled tokens: {_range(table['num_sampled_tokens'])}"


def _range(column: Any) -> str:
    low, high = pc.min_max(column).as_py().values()
    return f"{low:g} to {high:g}" if low != high else f"{low:g}"
