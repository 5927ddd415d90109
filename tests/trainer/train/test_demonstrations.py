import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.model.tokenizer import learn_tokenizer
from sweyard_trainer.trajectory import Segment
from sweyard_trainer.warmup import (
    DEMONSTRATIONS_PER_TASK,
    DemonstrationFormatError,
    demonstration_segment,
    draw_batch,
    recorded_demonstrations,
    scripted_demonstrations,
)

TALK = [
    Message("user", "fix it"),
    Message("assistant", "edit 1|a|b"),
    Message("user", "ok"),
    Message("assistant", "done"),
]


@pytest.fixture(scope="module")
def renderer() -> ChatRenderer:
    return ChatRenderer(learn_tokenizer(["fix it edit done ok"], 300, 512))


class RightOrWrong:
    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        return [Message("user", "q"), Message("assistant", "right" if correct else "wrong")]

    def run(self, *arguments: Any) -> Any:
        raise NotImplementedError


def said(segment: Segment, renderer: ChatRenderer) -> str:
    return renderer.text(segment.token_ids[segment.loss_mask].tolist())


def test_replies_are_the_targets_and_ids_are_those_that_sampling_would_see(renderer: ChatRenderer) -> None:
    segment = demonstration_segment(TALK, renderer)
    assert said(segment, renderer) == "edit 1|a|b<|end|>done"
    assert segment.token_ids.tolist() == renderer.prompt_ids(TALK)[: len(segment.token_ids)]
    assert len(segment.token_ids) == len(renderer.prompt_ids(TALK)) - 1


def test_the_asked_share_of_demonstrations_is_right(renderer: ChatRenderer) -> None:
    tasks = [
        Task(
            id=str(n),
            repository="r",
            image="i:1",
            working_directory="/",
            problem_statement="",
            gold_patch="",
            fail_to_pass=(),
        )
        for n in range(10)
    ]
    segments = scripted_demonstrations(tasks, RightOrWrong(), renderer, correct_fraction=0.4, seed=0)
    counts = Counter(said(segment, renderer) for segment in segments)
    assert counts == {"right": 4 * DEMONSTRATIONS_PER_TASK, "wrong": 6 * DEMONSTRATIONS_PER_TASK}


def test_batches_walk_through_all_demonstrations_each_epoch(renderer: ChatRenderer) -> None:
    segments = [demonstration_segment([Message("user", str(n)), Message("assistant", "x")], renderer) for n in range(6)]
    epochs = [draw_batch(segments, step, 3, seed=0) for step in range(4)]
    ids = [[id(segment) for segment in batch] for batch in epochs]
    assert sorted(ids[0] + ids[1]) == sorted(ids[2] + ids[3]) == sorted(map(id, segments))
    assert ids[0] + ids[1] != ids[2] + ids[3]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_recorded_trajectories_are_read(tmp_path: Path, renderer: ChatRenderer, suffix: str) -> None:
    rows = [{"messages": [{"role": m.role, "content": m.content} for m in TALK]}] * 2
    path = tmp_path / f"talk.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert [said(segment, renderer) for segment in recorded_demonstrations(path, renderer)] == [
        "edit 1|a|b<|end|>done"
    ] * 2


def test_a_row_that_is_no_chat_is_named(tmp_path: Path, renderer: ChatRenderer) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text('{"prompt": "x"}\n')
    with pytest.raises(DemonstrationFormatError, match=r"talk.jsonl row 1: give `messages`"):
        recorded_demonstrations(path, renderer)
