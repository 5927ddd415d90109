from collections import Counter
from typing import Any

import pytest

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.demonstrations.batches import draw_batch
from sweyard_trainer.demonstrations.chats import chat_segment
from sweyard_trainer.demonstrations.scripted import DEMONSTRATIONS_PER_TASK, scripted_demonstrations
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.gateway.rendering import ChatRenderer


class RightOrWrong:
    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        return [Message("user", "q"), Message("assistant", "right" if correct else "wrong")]

    def run(self, *arguments: Any) -> Any:
        raise NotImplementedError


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
    counts = Counter(renderer.text(segment.token_ids[segment.loss_mask].tolist()) for segment in segments)
    assert counts == {"right": 4 * DEMONSTRATIONS_PER_TASK, "wrong": 6 * DEMONSTRATIONS_PER_TASK}


class Scriptless(RightOrWrong):
    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        raise NotImplementedError(f"task {task.id}: no script")


def test_a_task_without_a_script_is_named_with_what_can_be_done(renderer: ChatRenderer) -> None:
    task = Task.model_construct(id="t")
    with pytest.raises(UnsupportedError, match=r"task t: no script: choose other tasks by warmup\.tasks"):
        scripted_demonstrations([task], Scriptless(), renderer, correct_fraction=1.0, seed=0)


def test_batches_walk_through_all_demonstrations_each_epoch(renderer: ChatRenderer) -> None:
    segments = [chat_segment([Message("user", str(n)), Message("assistant", "x")], renderer) for n in range(6)]
    epochs = [draw_batch(segments, step, 3, seed=0) for step in range(4)]
    ids = [[id(segment) for segment in batch] for batch in epochs]
    assert sorted(ids[0] + ids[1]) == sorted(ids[2] + ids[3]) == sorted(map(id, segments))
    assert ids[0] + ids[1] != ids[2] + ids[3]
