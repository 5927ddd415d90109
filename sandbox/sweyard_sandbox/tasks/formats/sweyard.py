"""Our own rows: a Task as JSON."""

from typing import Any

from pydantic import ValidationError

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.task import Task


def sweyard_task(row: dict[str, Any], number: int) -> Task:
    """The row itself. Raises TaskFormatError with the first wrong field."""
    try:
        return Task.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise TaskFormatError(f"row {number} ({row.get('id', 'no id')}): field {place!r}: {first['msg']}") from None
