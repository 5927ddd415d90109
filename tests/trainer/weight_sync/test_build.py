"""How weights travel, as config and environment say."""

from pathlib import Path
from typing import Any

import pytest

from sweyard_api.resolve import resolve
from sweyard_trainer.environment import Environment
from sweyard_trainer.learner.frozen import FrozenPolicy
from sweyard_trainer.weight_sync.build import make_weight_sync

SPEC: dict[str, Any] = {
    "preset": "tiny",
    "tasks": {"train": {"dataset": "tiny"}, "eval": [{"dataset": "tiny"}]},
    "trainer": {"device": "auto"},
}


@pytest.mark.parametrize(
    ("mode", "urls", "reads_files"),
    [
        pytest.param("rl", ("http://engine:8000",), False, id="to engines over NCCL"),
        pytest.param("eval", ("http://engine:8000",), True, id="an evaluation has no ranks that could send"),
        pytest.param("sft", (), True, id="without engines the volume gets them"),
    ],
)
def test_weights_are_sent_where_there_is_who_sends_and_who_receives(
    tmp_path: Path, mode: str, urls: tuple[str, ...], reads_files: bool
) -> None:
    sft = {"sft": {"datasets": ["/chats.jsonl"]}} if mode == "sft" else {}
    spec = resolve({**SPEC, **sft, "mode": mode, "inference": {"weightSync": "nccl"}})
    sync = make_weight_sync(spec, Environment("demo", tmp_path, engine_urls=urls), FrozenPolicy(tmp_path))
    assert sync.reads_files == reads_files
