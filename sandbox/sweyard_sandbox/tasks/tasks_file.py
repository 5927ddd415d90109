"""The file in which a data set holds its tasks."""

import gzip
import json
from collections.abc import Sequence

from sweyard_sandbox.tasks.task import Task

TASKS_FILE = "tasks.jsonl.gz"


def compressed(tasks: Sequence[Task]) -> bytes:
    """Gzipped JSONL; equal tasks give equal bytes."""
    lines = "".join(json.dumps(task.model_dump(mode="json", exclude_defaults=True)) + "\n" for task in tasks)
    return gzip.compress(lines.encode(), compresslevel=9, mtime=0)
