"""The demo's directory: an earlier demo is never mixed with a new one."""

from datetime import datetime
from pathlib import Path

from sweyard_api.program import program
from sweyard_cli.errors import UserError
from sweyard_cli.local.lock import is_locked


def set_aside(output: Path, now: datetime) -> Path | None:
    """Move what an earlier demo left; where to, or None if there is nothing. Raises UserError if one is running."""
    if not output.exists():
        return None
    if is_locked(output):
        raise UserError(
            f"{output}: a demo is running; look at it with `{program()} watch --output {output}`, or stop it"
        )
    kept = output.with_name(f"{output.name}-{now:%Y%m%d-%H%M%S}")
    output.rename(kept)
    return kept
