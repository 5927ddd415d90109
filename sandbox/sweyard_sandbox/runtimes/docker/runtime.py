"""DockerRuntime: one container a sandbox, without network, by the engine's command line."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from sweyard_sandbox.driver.channel import Channel, ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.sandbox import DriverSandbox
from sweyard_sandbox.driver.wire import BOOTSTRAP
from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError, SandboxEndedError
from sweyard_sandbox.runtimes.docker.holder import READS_UNTIL_THE_END, Holder
from sweyard_sandbox.runtimes.docker.process_channel import ProcessChannel
from sweyard_sandbox.runtimes.thread_caps import build_thread_caps

_LABEL = "dev.sweyard.sandbox"
_ABANDONED = ("--filter", f"label={_LABEL}", "--filter", "until=10m")


@dataclass(frozen=True, slots=True)
class DockerConfig:
    """How containers are made."""

    program: str = "docker"
    """The engine's command line."""
    cpus: float = 1.0
    """Limit, and what tools size their thread pools by."""
    memory: str = "4g"
    """Limit, as for `docker run --memory`."""
    max_processes: int = 1_024
    """Limit on processes and threads."""
    working_directory: str | None = None
    """Where commands begin; default the image's own."""
    max_sandboxes: int = 16
    """At once; further `acquire` calls wait."""
    make_secret: Callable[[], str] = field(default=lambda: secrets.token_hex(8))
    """Source of names and of unguessable marks."""


class DockerRuntime:
    """Sandboxes of one engine."""

    def __init__(self, config: DockerConfig | None = None) -> None:
        self._config = config or DockerConfig()
        self._free = asyncio.Semaphore(self._config.max_sandboxes)
        self._open: set[DriverSandbox] = set()

    async def acquire(self, image: str, *, deadline_seconds: float) -> DriverSandbox:
        """A fresh container of `image`, pulled if it is not there."""
        secret = self._config.make_secret()
        name = f"sweyard-{secret}"
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._free.acquire()
                try:
                    return await self._start(name, secret, image)
                except BaseException:
                    self._free.release()
                    await asyncio.shield(self._remove(name))
                    raise
        except TimeoutError:
            raise ClaimTimeoutError(f"no container of {image} was ready in {deadline_seconds:g} s") from None

    async def announce(self, images: list[str]) -> None:
        """Nothing to prepare: containers start when they are acquired."""

    async def close(self) -> None:
        """Remove all containers."""
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._open)))

    async def _start(self, name: str, secret: str, image: str) -> DriverSandbox:
        config = self._config
        options = ["--network=none", f"--cpus={config.cpus:g}", f"--memory={config.memory}"]
        options += [f"--pids-limit={config.max_processes}", f"--label={_LABEL}", f"--name={name}"]
        if config.working_directory:
            options.append(f"--workdir={config.working_directory}")
        options += ["--security-opt=no-new-privileges", "--init", "--interactive", "--entrypoint=/bin/sh"]
        await self._engine("create", *options, image, "-c", READS_UNTIL_THE_END)
        holder = await Holder.start(config.program, name)
        client = DriverClient(DockerContainer(config.program, name), secret, environment=build_thread_caps(config.cpus))

        async def destroy() -> None:
            self._open.discard(sandbox)
            self._free.release()
            await self._remove(name)
            await holder.let_go()

        sandbox = DriverSandbox(name, client, destroy)
        try:
            await client.open()
        except ChannelError as error:
            raise InfrastructureError(FailureReason.ERROR, f"{image}: {error}") from error
        self._open.add(sandbox)
        return sandbox

    async def _remove(self, name: str) -> None:
        with contextlib.suppress(InfrastructureError):  # it may never have been made
            await self._engine("rm", "--force", "--volumes", name)

    async def _engine(self, *words: str) -> bytes:
        return await run_engine(self._config.program, *words)


class DockerContainer:
    """Connector to one container."""

    def __init__(self, program: str, name: str) -> None:
        self._program = program
        self._name = name

    async def connect(self) -> Channel:
        return await ProcessChannel.start(
            self._program, "exec", "--interactive", self._name, "/bin/sh", "-c", BOOTSTRAP
        )

    async def explain(self) -> InfrastructureError | None:
        try:
            state = json.loads(await run_engine(self._program, "inspect", "--format={{json .State}}", self._name))
        except InfrastructureError as error:
            return InfrastructureError(FailureReason.DELETED, error.message)
        if state.get("Running"):
            return None
        if state.get("OOMKilled"):
            return InfrastructureError(FailureReason.OOM_KILLED, "the container ran out of memory")
        if state.get("ExitCode") == 0:
            return InfrastructureError(FailureReason.ERROR, "the engine's client that held the container is gone")
        if await self._was_sent_a_signal():
            return InfrastructureError(FailureReason.ERROR, f"the container was stopped, code {state.get('ExitCode')}")
        return SandboxEndedError()

    async def _was_sent_a_signal(self) -> bool:
        """By `docker stop`, `docker kill` or the like. The engine's times are whole seconds."""
        span = ["--since=24h", "--until=-1s"]
        filters = [f"--filter=container={self._name}", "--filter=event=kill"]
        return bool((await run_engine(self._program, "events", *span, *filters)).strip())


async def open_engine(config: DockerConfig) -> DockerRuntime:
    """Of an engine that answers, else InfrastructureError. What killed holders left there is removed."""
    await run_engine(config.program, "container", "prune", "--force", *_ABANDONED)
    return DockerRuntime(config)


async def run_engine(program: str, *words: str) -> bytes:
    """Output of one command of the engine. Raises InfrastructureError with what it said."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(program, *words, stdout=pipe, stderr=pipe)
    except FileNotFoundError as error:
        raise InfrastructureError(FailureReason.ERROR, f"there is no program {program!r}; install Docker") from error
    output, problem = await process.communicate()
    if process.returncode:
        said = problem.decode("utf-8", "replace").strip()
        reason = FailureReason.IMAGE_PULL if "pull" in said or "manifest" in said else FailureReason.ERROR
        raise InfrastructureError(reason, f"{program} {words[0]}: {said}")
    return output
