"""Practice for demonstrations: from training functions only, and kept out of every other selection."""

from pathlib import Path

import pytest

from sweyard_api.workload import Agent as AgentSpec
from sweyard_api.workload import TaskSource
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_sandbox.tasks.make import Options, Quotas
from sweyard_sandbox.tasks.making import Making, run
from sweyard_sandbox.tasks.task import Task

FUNCTIONS = 8
FUNCTION = (
    "def pick{0}(items, limit):\n    if items == [] and limit < {0}:\n        return None\n    return limit + {0}\n"
)
TEST = """\
import unittest

from gauge.core import *


class CoreTest(unittest.TestCase):
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("practice")
    repository = root / "gauge"
    (repository / "gauge").mkdir(parents=True)
    (repository / "tests").mkdir()
    (repository / "gauge" / "__init__.py").write_text("")
    (repository / "gauge" / "core.py").write_text("\n\n".join(FUNCTION.format(n + 3) for n in range(FUNCTIONS)))
    cases = [
        f"    def test_{n}(self):\n"
        f"        self.assertEqual((pick{n}([], 0), pick{n}([1], 0), pick{n}([], {n})), (None, {n}, {2 * n}))\n\n"
        for n in range(3, FUNCTIONS + 3)
    ]
    (repository / "tests" / "test_core.py").write_text(TEST + "".join(cases))
    (repository / "pyproject.toml").write_text('[project]\nname = "gauge"\nlicense = "MIT"\n')
    options = Options(quotas=Quotas(train=6, heldout=3, practice=30))
    return run(Making(name="d", cache=root / "cache", repositories=[repository], options=options))


def load(dataset: Path, split: str | None) -> list[Task]:
    return load_tasks(TaskSource(dataset=str(dataset), split=split), [])


def test_practice_is_in_no_function_of_a_held_out_task(dataset: Path) -> None:
    practice, held_out = load(dataset, "practice"), load(dataset, "heldout")
    assert len(practice) == 30
    assert len(held_out) == 3
    assert not {task.context["function"] for task in practice} & {task.context["function"] for task in held_out}


def test_practice_can_be_demonstrated_right_and_wrong(dataset: Path) -> None:
    agent = make_agent(AgentSpec(type="short"))
    for task in load(dataset, "practice"):
        right, wrong = (agent.scripted(task, correct=correct, seed=0) for correct in (True, False))
        assert right[0] == wrong[0]
        assert right[1] != wrong[1]


def test_what_cannot_be_graded_is_never_trained_on_by_accident(dataset: Path) -> None:
    assert not {task.id for task in load(dataset, None)} & {task.id for task in load(dataset, "practice")}
    assert all(task.fail_to_pass for task in load(dataset, None))
