import json
import subprocess
import sys
from pathlib import Path

KEEP = 1


def test_a_save_killed_at_any_file_leaves_the_last_complete_checkpoint_usable(tmp_path: Path) -> None:
    script = Path(__file__).with_name("save_until_killed.py")
    command = [sys.executable, str(script), str(tmp_path / "checkpoints"), str(KEEP)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lives = [json.loads(line) for line in output.splitlines()]

    assert len(lives) > 15, "a save touches more files than that"
    assert not lives[-1]["killed"]
    assert all(life["killed"] for life in lives[:-1])
    for life in lives:
        assert life["latest"] in (life["saving"] - 1, life["saving"])
    assert sum(life["latest"] == life["saving"] for life in lives) >= 2, "killed after the rename it is complete"
    last = lives[-1]
    assert last["latest"] == last["saving"]
    assert last["left"] == [f"step-{step}" for step in range(last["latest"] - KEEP + 1, last["latest"] + 1)]
