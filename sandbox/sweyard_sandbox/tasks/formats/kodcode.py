"""KodCode rows: one function to write, and a file of pytest tests for it.

Fields read: question_id (older releases: conversation_id), question, solution, test (newer: test_code; a module that
does `from solution import ...`), test_info (a struct or a list of them; of each function_declaration and docstring),
style, subset, gpt_difficulty. Source: KodCode/KodCode-V1 and its data card on the hub. No row has a repository or an
image: `image` comes from the task source, and must have pytest and an empty repository as its working directory
(images/task/Dockerfile of an empty folder makes one).

The agent finds solution.py with the declarations; the hidden tests are put in by the grader. Which tests there are is
read from the module; one that parametrizes them names them only at run time, so such a row is no task.
"""

import ast
from typing import Any, TypeGuard

from sweyard_sandbox.errors import TaskFormatError
from sweyard_sandbox.tasks.diff import file_patch
from sweyard_sandbox.tasks.formats.fields import difficulty_tags, text_field
from sweyard_sandbox.tasks.task import Task

WORKING_DIRECTORY = "/testbed"
SOLUTION, TESTS = "solution.py", "test_solution.py"
ASKED = "Write your answer into {directory}/{file}, where its declaration is.\n\n{question}"


def kodcode_task(row: dict[str, Any], number: int) -> Task:
    """A Task of one file. Raises TaskFormatError."""
    identity = row.get("question_id") or row.get("conversation_id") or row.get("id")
    label = f"row {number} ({identity or 'no question_id'})"
    if not row.get("image"):
        raise TaskFormatError(f"{label}: KodCode names no image; set `image` in the task source, with pytest in it")
    tests, solution = _tests_text(row, label), text_field(row, "solution", label)
    stub = _stub(row.get("test_info"))
    question = text_field(row, "question", label).strip()
    return Task(
        id=str(identity or f"kodcode-{number}"),
        repository=str(row.get("subset") or "kodcode"),
        image=text_field(row, "image", label),
        working_directory=WORKING_DIRECTORY,
        problem_statement=ASKED.format(directory=WORKING_DIRECTORY, file=SOLUTION, question=question),
        gold_patch=file_patch(SOLUTION, stub, f"{solution.rstrip()}\n"),
        setup_patch=file_patch(SOLUTION, "", stub),
        fail_to_pass=tuple(f"{TESTS}::{name}" for name in test_names(tests, label)),
        grading={
            "runner": "pytest",
            "python_path": ["."],
            "test_files": [TESTS],
            "hidden_tests": {TESTS: tests},
        },
        tags=difficulty_tags(row.get("gpt_difficulty")),
    )


def test_names(module: str, label: str) -> list[str]:
    """Ids of its tests, without the file. Raises TaskFormatError where they cannot be read off."""
    try:
        tree = ast.parse(module)
    except (SyntaxError, ValueError):
        raise TaskFormatError(f"{label}: the tests are no Python; drop the row") from None
    names = [node.name for node in tree.body if _is_test(node)]
    for group in tree.body:
        if isinstance(group, ast.ClassDef) and group.name.startswith("Test"):
            names += [f"{group.name}::{node.name}" for node in group.body if _is_test(node)]
    if any(isinstance(node, ast.Attribute) and node.attr == "parametrize" for node in ast.walk(tree)):
        raise TaskFormatError(f"{label}: parametrized tests have names only at run time; drop the row")
    if not names:
        raise TaskFormatError(f"{label}: the tests have no test function; drop the row")
    return list(dict.fromkeys(names))


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


def _tests_text(row: dict[str, Any], label: str) -> str:
    return text_field(row, "test_code" if row.get("test_code") else "test", label)


def _stub(test_info: Any) -> str:
    """The declarations, each with what its docstring says; never the solution."""
    infos = test_info if isinstance(test_info, list) else [test_info]
    parts = ['"""Your solution."""\n']
    for info in infos:
        declaration = str(info.get("function_declaration") or "").strip() if isinstance(info, dict) else ""
        if declaration.startswith("def "):
            body = "".join(f"    # {line.strip()}\n" for line in str(info.get("docstring") or "").strip().splitlines())
            parts.append(f"{declaration.rstrip(':')}:\n{body}    raise NotImplementedError\n")
    return "\n\n".join(parts)
