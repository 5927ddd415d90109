"""Task: one problem in one repository, with hidden tests that say whether it is solved."""

from collections.abc import Hashable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from sweyard_sandbox.tree_image import tree_of


class Task(BaseModel):
    """The one form that every data set's rows are brought to.

    What an agent may see: `image`, `working_directory`, `problem_statement`, and for `short` agents `context`.
    Everything under `grading` and `gold_patch` stays outside its sandbox.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Unique within its data set."""
    repository: str
    """Source project, for reports per repository."""
    image: str
    """Container image; for the local runtime a directory tree, `dir:PATH`, with PATH absolute or relative to the
    data set's directory."""
    working_directory: str
    """Where the repository lies in the sandbox, for example /testbed."""
    problem_statement: str
    """What the agent is told."""
    gold_patch: str
    """Unified diff that solves it (git apply -p1)."""
    fail_to_pass: tuple[str, ...]
    """Test ids that fail before and pass after."""
    pass_to_pass: tuple[str, ...] = ()
    """Test ids that pass before and after."""
    flaky_tests: tuple[str, ...] = ()
    """Of these, those that are known to fail now and then with right work: a majority of runs decides on them."""
    setup_patch: str = ""
    """Unified diff that puts the fault into the image's clean tree; applied by `prepare_sandbox` and by the grader."""
    grading: dict[str, Any] = {}
    """What this task's grader needs: test command, hidden test files, log parser, the original row."""
    grader: Literal["sweyard", "swe-bench", "r2e-gym", "harbor"] = "sweyard"
    """Which grader reads `grading`."""
    work: Literal["patch", "files"] = "patch"
    """How the agent's work travels to the fresh grading sandbox: as a patch of its repository, or as the changed files
    of the whole file system."""
    context: dict[str, Any] = {}
    """Public extras that an agent may show: for the `short` agent the file, and the numbered lines around the fault."""
    tags: tuple[str, ...] = ()
    """For selection: mutation kind, difficulty, split."""

    @property
    def is_directory(self) -> bool:
        """Whether its tree is a directory of this machine, and no container image."""
        return tree_of(self.image) is not None

    @property
    def identity(self) -> Hashable:
        """Key of what is remembered of it: tasks of two data sets may have the same id."""
        return self.id, self.image, self.setup_patch, self.fail_to_pass, self.pass_to_pass
