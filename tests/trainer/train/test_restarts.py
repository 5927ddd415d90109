import json
from datetime import UTC, datetime
from pathlib import Path

from sweyard_trainer.restarts import RESTARTS_FILE, record_restart

NOW = datetime(2030, 1, 2, tzinfo=UTC)


def test_restarts_within_steps_that_are_done_again_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / RESTARTS_FILE).parent.mkdir()
    for step in (0, 4, 8, 4):
        record_restart(tmp_path, step, NOW)
    rows = [json.loads(line) for line in (tmp_path / RESTARTS_FILE).read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 4, 4]
    assert rows[0]["time"] == "2030-01-02T00:00:00.000+00:00"
