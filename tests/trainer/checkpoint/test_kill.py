import json
from pathlib import Path

from tests.warm_interpreter import WarmInterpreter

KEEP = 1


def test_a_save_killed_at_any_file_leaves_the_last_complete_checkpoint_usable(
    tmp_path: Path, warm_interpreter: WarmInterpreter
) -> None:
    arguments, log = [str(tmp_path / "checkpoints"), str(KEEP)], tmp_path / "log"
    saving = warm_interpreter.start("tests.trainer.checkpoint.save_until_killed", arguments, log)
    assert saving.wait(300) == 0, log.read_text()
    lives = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]

    assert len(lives) > 15, "a save touches more files than that"
    assert not lives[-1]["killed"]
    assert all(life["killed"] for life in lives[:-1])
    for life in lives:
        assert life["latest"] in (life["saving"] - 1, life["saving"])
    assert sum(life["latest"] == life["saving"] for life in lives) >= 2, "killed after the rename it is complete"
    last = lives[-1]
    assert last["latest"] == last["saving"]
    assert last["left"] == [f"step-{step}" for step in range(last["latest"] - KEEP + 1, last["latest"] + 1)]
