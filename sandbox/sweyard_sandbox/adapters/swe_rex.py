"""SWE-ReX's deployment and runtime over any of our runtimes, for SWE-agent and mini-swe-agent.

Written to swerex/deployment/abstract.py and swerex/runtime/abstract.py of SWE-ReX 1.4, whose clients go by attributes:
nothing of it is imported here, so it needs not be installed. `timeout_error` is the exception that its clients expect
of a command that takes too long, swerex.exceptions.CommandTimeoutError.

A session keeps directory, variables and functions from command to command; what runs in its background lives on in the
sandbox, but interactive programs (`is_interactive_command`) are refused.
"""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweyard_sandbox.adapters.folders import upload_folder
from sweyard_sandbox.runtime import Result, Runtime, Sandbox

DEFAULT_SECONDS = 1_800.0
STATES = "/tmp/.swe-rex"
"""Folder with what each session keeps."""


@dataclass(frozen=True, slots=True)
class Answer:
    """All responses of SWE-ReX in one, by the names of their fields."""

    output: str = ""
    stdout: str = ""
    stderr: str = ""
    content: str = ""
    exit_code: int | None = None
    expect_string: str = ""
    failure_reason: str = ""
    session_type: str = "bash"
    is_alive: bool = True
    message: str = ""


class RexRuntime:
    """AbstractRuntime of one sandbox."""

    def __init__(self, sandbox: Sandbox, timeout_error: type[Exception] = TimeoutError) -> None:
        self._sandbox = sandbox
        self._timeout_error = timeout_error

    async def is_alive(self, *, timeout: float | None = None) -> Answer:
        """Whether commands run."""
        result = await self._sandbox.run("true", timeout_seconds=timeout or DEFAULT_SECONDS)
        return Answer(is_alive=result.exit_code == 0)

    async def create_session(self, request: Any) -> Answer:
        """Sources the files that it is asked to."""
        state = _state(request.session)
        sources = "".join(f". {shlex.quote(path)}\n" for path in request.startup_source)
        result = await self._run(
            f"mkdir -p {STATES} && : >{state}\n{_kept(state, sources)}", DEFAULT_SECONDS, check=True
        )
        return Answer(output=result.text)

    async def run_in_session(self, action: Any) -> Answer:
        """One command, after the others of its session. Raises `timeout_error`, ValueError, RuntimeError (`check`)."""
        if getattr(action, "is_interactive_command", False) or getattr(action, "expect", ()):
            raise ValueError("interactive programs are not supported in sessions here")
        script = _kept(_state(action.session), action.command)
        result = await self._run(script, action.timeout or DEFAULT_SECONDS)
        if getattr(action, "check", "silent") == "raise" and result.exit_code:
            raise RuntimeError(f"{action.command!r} failed with exit code {result.exit_code}: {result.text}")
        exit_code = None if getattr(action, "check", "silent") == "ignore" else result.exit_code
        return Answer(output=result.text, exit_code=exit_code)

    async def close_session(self, request: Any) -> Answer:
        """Forget what it kept."""
        await self._run(f"rm -f {_state(request.session)}", DEFAULT_SECONDS)
        return Answer()

    async def execute(self, command: Any) -> Answer:
        """One command outside of any session. Raises `timeout_error`, RuntimeError (`check`)."""
        words = command.command
        text = words if isinstance(words, str) else shlex.join(words)
        result = await self._run(
            text,
            command.timeout or DEFAULT_SECONDS,
            env=getattr(command, "env", None),
            cwd=getattr(command, "cwd", None),
            check=getattr(command, "check", False),
        )
        return Answer(stdout=result.text, exit_code=result.exit_code)

    async def read_file(self, request: Any) -> Answer:
        """Text of a file. Raises OSError."""
        data = await self._sandbox.read(request.path)
        encoding, errors = (getattr(request, name, None) for name in ("encoding", "errors"))
        return Answer(content=data.decode(encoding or "utf-8", errors or "strict"))

    async def write_file(self, request: Any) -> Answer:
        """Raises OSError."""
        await self._sandbox.write(request.path, request.content.encode())
        return Answer()

    async def upload(self, request: Any) -> Answer:
        """A file or folder of this machine. Raises OSError."""
        source = Path(request.source_path)
        if source.is_dir():
            await upload_folder(self._sandbox, source, request.target_path)
        else:
            await self._sandbox.write(request.target_path, source.read_bytes(), mode=source.stat().st_mode & 0o777)
        return Answer()

    async def close(self) -> Answer:
        """Give the sandbox back."""
        await self._sandbox.close()
        return Answer()

    async def _run(self, script: str, timeout_seconds: float, *, check: bool = False, **options: Any) -> Result:
        result = await self._sandbox.run(script, timeout_seconds=timeout_seconds, **options)
        if result.timed_out:
            raise self._timeout_error(f"timed out after {timeout_seconds:g} s: {result.text[-2_000:]}")
        if check and result.exit_code:
            raise RuntimeError(f"exit code {result.exit_code}: {result.text[-2_000:]}")
        return result


@dataclass
class RexDeployment:
    """AbstractDeployment: a sandbox of `runtime` with `image`, claimed by `start` and given back by `stop`."""

    source: Runtime
    image: str
    timeout_error: type[Exception] = TimeoutError
    claim_seconds: float = 600.0
    hooks: list[Any] = field(default_factory=list)
    _runtime: RexRuntime | None = None

    def add_hook(self, hook: Any) -> None:
        """Told of each step of `start`."""
        self.hooks.append(hook)

    async def is_alive(self, *, timeout: float | None = None) -> Answer:
        """See RexRuntime."""
        if self._runtime is None:
            return Answer(is_alive=False, message="not started")
        return await self._runtime.is_alive(timeout=timeout)

    async def start(self) -> None:
        """Raises InfrastructureError."""
        for hook in self.hooks:
            hook.on_custom_step("Claiming a sandbox")
        self._runtime = RexRuntime(
            await self.source.acquire(self.image, deadline_seconds=self.claim_seconds), self.timeout_error
        )

    async def stop(self) -> None:
        """Safe to call twice."""
        if self._runtime is not None:
            await self._runtime.close()
            self._runtime = None

    @property
    def runtime(self) -> RexRuntime:
        """Of the sandbox. Raises RuntimeError before `start`."""
        if self._runtime is None:
            raise RuntimeError("the deployment is not started")
        return self._runtime


def _state(session: str) -> str:
    return shlex.quote(f"{STATES}/{session.replace('/', '_')}")


def _kept(state: str, command: str) -> str:
    """`command` in a bash that goes on where the last one of the session ended. Its exit code is the command's."""
    script = f"""\
if [ -f {state} ]; then . {state} >/dev/null 2>&1; fi
sweyard_keep() {{
  sweyard_code=$?
  {{ export -p | grep -v '^declare -x SWEYARD_'; declare -f; printf 'cd %q\\n' "$PWD"; }} >{state}
  exit $sweyard_code
}}
trap sweyard_keep EXIT
{command}
"""
    return f"exec bash -c {shlex.quote(script)}"
