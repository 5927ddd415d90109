"""What is attempted next: pure, deterministic from the seed and a position, so that a resume draws the same."""

import hashlib
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweyard_sandbox.tasks.task import Task


@dataclass(frozen=True, slots=True)
class AttemptPlan:
    """One attempt before it begins."""

    attempt_id: str
    group_id: str
    task: Task
    temperature: float
    seed: int


@dataclass(slots=True)
class TaskCursor:
    """Walks over task ids, shuffled afresh each epoch; its state is two numbers and the ids that were set aside."""

    task_ids: tuple[str, ...]
    seed: int
    epoch: int = 0
    position: int = 0
    set_aside: set[str] = field(default_factory=set)
    """Tasks whose gold patch fails or whose empty patch passes: never drawn again."""

    def draw(self) -> str | None:
        """The next task id; None if every task has been set aside."""
        if self.set_aside.issuperset(self.task_ids):
            return None
        while True:
            if self.position >= len(self.task_ids):
                self.epoch, self.position = self.epoch + 1, 0
            task_id = self._order()[self.position]
            self.position += 1
            if task_id not in self.set_aside:
                return task_id

    def state(self) -> dict[str, Any]:
        """JSON-able, for the checkpoint."""
        return {"epoch": self.epoch, "position": self.position, "set_aside": sorted(self.set_aside)}

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of `state`."""
        self.epoch, self.position = state["epoch"], state["position"]
        self.set_aside = set(state["set_aside"])

    def _order(self) -> list[str]:
        order = list(self.task_ids)
        random.Random(f"{self.seed}/{self.epoch}").shuffle(order)
        return order


def plan_group(label: str, draw: int, task: Task, size: int, *, temperature: float, seed: int) -> list[AttemptPlan]:
    """The attempts of one group. `label` is the step (or the evaluation), `draw` counts groups within it."""
    group_id = f"{label}/{task.id}" if draw == 0 else f"{label}/{task.id}~{draw}"
    return [
        AttemptPlan(
            attempt_id=f"{group_id}/{index}",
            group_id=group_id,
            task=task,
            temperature=temperature,
            seed=derive_seed(seed, group_id, index),
        )
        for index in range(size)
    ]


def derive_seed(seed: int, *parts: object) -> int:
    """A seed of its own for each thing that draws (63 bits)."""
    digest = hashlib.blake2b("/".join(map(str, (seed, *parts))).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def images_in_order(plans: Sequence[AttemptPlan], most: int) -> list[str]:
    """One image for each sandbox that the first `most` attempts will want."""
    return [plan.task.image for plan in plans[:most]]


def select_eval_plans(
    label: str, tasks: Sequence[Task], attempts: int, *, temperature: float, seed: int, set_aside: Collection[str]
) -> list[AttemptPlan]:
    """All attempts of one evaluation."""
    return [
        plan
        for task in tasks
        if task.id not in set_aside
        for plan in plan_group(label, 0, task, attempts, temperature=temperature, seed=seed)
    ]
