"""Where a run goes on: at its last complete checkpoint."""

from pathlib import Path

from sweyard_cli.results.files import CONFIG_FILE, read_config

CHECKPOINTS, COMPLETE = "checkpoints", "COMPLETE"


def last_position(output: Path) -> str | None:
    """In words that follow "stopped"; None before there is a checkpoint in `output`."""
    from sweyard_trainer.checkpoint.saved import Saved

    found = [saved for path in (output / CHECKPOINTS).glob(f"*/{COMPLETE}") if (saved := Saved.parse(path.parent.name))]
    if not found:
        return None
    last = max(found)
    if not last.is_main:
        return f"in the warm-up after step {last.step} of {read_config(output / CONFIG_FILE)['warmup']['steps']}"
    return f"after step {last.step}" if last.step else "after the warm-up"
