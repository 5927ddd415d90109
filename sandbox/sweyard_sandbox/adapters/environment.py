"""One attempt at one task as other training loops want it: start, commands, reward. Needs no trainer of ours.

    async with TaskEnvironment(task, runtime) as environment:
        observation = await environment.run("ls")
        grade = await environment.grade()

Infrastructure failures are InfrastructureError, never a reward: leave such an attempt out, or begin it anew.
"""

from types import TracebackType
from typing import Self

from sweyard_sandbox.agents.tools.arguments import ToolError
from sweyard_sandbox.agents.tools.bash import execute_bash
from sweyard_sandbox.errors import FailureReason, InfrastructureError, SandboxEndedError
from sweyard_sandbox.grading.extract import extract_work
from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.runtime import Runtime, Sandbox
from sweyard_sandbox.tasks.prepared import acquire_prepared
from sweyard_sandbox.tasks.task import Task


class TaskEnvironment:
    """A sandbox in which the task is prepared, and its grading in another one."""

    def __init__(
        self,
        task: Task,
        runtime: Runtime,
        *,
        claim_seconds: float = 600.0,
        step_seconds: float = 90.0,
        grading_seconds: float = 300.0,
    ) -> None:
        self.task = task
        self._runtime = runtime
        self._claim_seconds = claim_seconds
        self._step_seconds = step_seconds
        self._grading_seconds = grading_seconds
        self._sandbox: Sandbox | None = None

    async def __aenter__(self) -> Self:
        """Raises InfrastructureError."""
        self._sandbox = await acquire_prepared(self._runtime, self.task, self._claim_seconds)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()

    @property
    def prompt(self) -> str:
        """What an agent is told."""
        return f"The repository is in {self.task.working_directory}.\n\n{self.task.problem_statement.strip()}\n"

    async def run(self, command: str) -> str:
        """Output of a shell command as a model is shown it, bounded and with its exit code. Raises InfrastructureError.

        Where the command ended the sandbox itself, the attempt is over: `grade` says unsolved.
        """
        try:
            return await execute_bash({"cmd": command}, self._opened(), timeout_seconds=self._step_seconds)
        except ToolError as error:
            return f"[{error}.]"
        except SandboxEndedError as error:
            return f"[{error.message}]"

    async def grade(self) -> Grade:
        """Both verdicts on the work as it now is, in a fresh sandbox. Raises InfrastructureError."""
        try:
            work = await extract_work(self.task, self._opened())
        except SandboxEndedError as error:
            return Grade(False, False, (error.message,))
        return await grade(self.task, work.patch, self._runtime, timeout_seconds=self._grading_seconds)

    def _opened(self) -> Sandbox:
        if self._sandbox is None:
            raise InfrastructureError(FailureReason.ERROR, "use the environment by `async with`")
        return self._sandbox
