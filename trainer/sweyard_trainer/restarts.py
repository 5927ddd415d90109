"""Where a run went on after its process had ended: `metrics/restarts.jsonl`, an object a line: step, time."""

import json
from datetime import datetime
from pathlib import Path

RESTARTS_FILE = Path("metrics", "restarts.jsonl")


def record_restart(storage: Path, step: int, now: datetime) -> None:
    """After `step` steps of the main phase. Restarts within steps that are done again for it are forgotten."""
    path = storage / RESTARTS_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in lines if json.loads(line)["step"] <= step]
    new = json.dumps({"step": step, "time": now.isoformat(timespec="milliseconds")})
    partial = path.with_suffix(".partial")
    partial.write_text("".join(f"{line}\n" for line in [*kept, new]), encoding="utf-8")
    partial.replace(path)
