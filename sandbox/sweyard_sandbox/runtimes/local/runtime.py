"""LocalRuntime: sandboxes on this machine, for laptops, tests and the demo.

An image is `dir:PATH`, a directory tree that appears as the working directory. With namespaces a sandbox sees its own
root, processes and network; what it writes lives in bounded memory. Where the system allows no namespaces, the runtime
refuses, unless `allow_unisolated`: then commands run as ordinary processes in a copied directory, and the working
directory's name is translated to that directory in `cwd`, in paths and in the text of commands.
"""

import asyncio
import os
import secrets
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sweyard_sandbox.driver.channel import Channel, ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.driver.wire import BOOTSTRAP
from sweyard_sandbox.errors import ClaimTimeoutError, FailureReason, InfrastructureError
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.runtimes.local.isolation import Layout
from sweyard_sandbox.runtimes.local.kept_trees import KeptTrees
from sweyard_sandbox.runtimes.local.killing import kill_carrying
from sweyard_sandbox.runtimes.local.launcher import Launcher, SocketChannel
from sweyard_sandbox.runtimes.local.sandbox import LocalSandbox
from sweyard_sandbox.runtimes.local.unisolated import TranslatingSandbox
from sweyard_sandbox.runtimes.thread_caps import build_thread_caps
from sweyard_sandbox.tree_image import tree_image, tree_of

_SYSTEM_PATHS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix")
_SYSTEM_SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_MOST_KEPT_BYTES = 1 << 29
_LARGEST_KEPT_TREE_BYTES = 32_000_000
_SPOOL = "SWEYARD_SPOOL"
_TAR_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LocalConfig:
    """How local sandboxes look. The defaults show this Python's environment and the system's tools."""

    working_directory: str = "/testbed"
    """Where the image's tree appears; also the default `cwd`."""
    image_root: Path | None = None
    """What a relative PATH of an image is relative to."""
    read_only_paths: tuple[str, ...] = (*_SYSTEM_PATHS, sys.prefix, sys.base_prefix)
    """Host paths that sandboxes see, unchangeable, in their own place."""
    search_path: str = f"{sys.prefix}/bin:{_SYSTEM_SEARCH}"
    """PATH of the commands."""
    memory_bytes: int = 1 << 30
    """Bound on what a sandbox can write."""
    max_processes: int = 1_024
    """More at once, and all of a sandbox's commands are killed."""
    cpus: float = 1.0
    """What tools should size their thread pools by."""
    max_sandboxes: int = 64
    """At once; further `acquire` calls wait."""
    allow_unisolated: bool = False
    """Run without isolation where namespaces are missing. For trusted models only."""
    make_secret: Callable[[], str] = field(default=lambda: secrets.token_hex(8))
    """Source of unguessable marks."""


class LocalRuntime:
    """Sandboxes of this machine."""

    def __init__(self, config: LocalConfig | None = None) -> None:
        self._config = config or LocalConfig()
        self._launcher = Launcher()
        self._free = asyncio.Semaphore(self._config.max_sandboxes)
        self._scratch: str | None = None
        self._isolated: bool | None = None
        self._open: set[Sandbox] = set()
        self._kept = KeptTrees(self._launcher.make_folder)

    async def acquire(self, image: str, *, deadline_seconds: float) -> Sandbox:
        """A fresh sandbox of `image` (`dir:PATH`)."""
        tree = self._resolve(image)
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise ClaimTimeoutError(
                f"all {self._config.max_sandboxes} local sandboxes were in use for {deadline_seconds:g} s"
            ) from None
        try:
            return await self._start(tree)
        except BaseException:
            self._free.release()
            raise

    async def announce(self, images: list[str]) -> None:
        """Nothing to prepare: a local sandbox starts in milliseconds."""

    async def keep_tree(self, sandbox: Sandbox) -> str | None:
        """A copy of the sandbox's working directory as an image; None for too large a tree, or too many."""
        packed = await sandbox.run(
            "tar -cf - .", timeout_seconds=_TAR_TIMEOUT_SECONDS, output_cap_bytes=_LARGEST_KEPT_TREE_BYTES
        )
        if packed.exit_code != 0:
            raise InfrastructureError(FailureReason.ERROR, f"the tree cannot be packed: {packed.text[-300:]}")
        if packed.truncated or self._kept.num_bytes + len(packed.output) > _MOST_KEPT_BYTES:
            return None
        return tree_image(await self._kept.add(packed.output))

    async def close(self) -> None:
        """End all sandboxes."""
        for sandbox in list(self._open):
            await sandbox.close()
        await self._launcher.close()

    def _resolve(self, image: str) -> Path:
        path = tree_of(image)
        if path is None:
            raise ValueError(f"image {image!r}: the local runtime needs a directory tree, written dir:PATH")
        if not path.is_absolute() and self._config.image_root is None:
            raise ValueError(f"image {image!r}: a relative path needs LocalConfig.image_root")
        tree = (self._config.image_root or Path("/")) / path
        if not tree.is_dir():
            raise ValueError(f"image {image!r}: there is no directory {tree}")
        return tree.resolve()

    async def _start(self, tree: Path) -> Sandbox:
        if self._scratch is None:
            scratch = await self._launcher.make_folder()
            os.mkdir(f"{scratch}/root")
            self._scratch = self._scratch or scratch
        secret = self._config.make_secret()
        if self._isolated is not False:
            try:
                sandbox = await self._start_isolated(tree, secret)
            except OSError as error:
                if self._isolated or not self._config.allow_unisolated:
                    raise InfrastructureError(
                        FailureReason.FORBIDDEN,
                        f"this system allows no isolated process ({error}); run as root or enable user namespaces, or "
                        "set allow_unisolated if you trust the model",
                    ) from error
            else:
                self._isolated = True
                return sandbox
        self._isolated = False
        return await self._start_unisolated(tree, secret)

    async def _start_isolated(self, tree: Path, secret: str) -> LocalSandbox:
        config = self._config
        paths = tuple(dict.fromkeys(path for path in config.read_only_paths if os.path.lexists(path)))
        layout = Layout(
            f"{self._scratch}/root",
            str(tree),
            config.working_directory,
            paths,
            config.memory_bytes,
            config.max_processes,
        )
        environment = self._build_environment(home="/root")
        pid, stream = await self._launcher.spawn(
            [], layout=layout, environment=environment, directory=config.working_directory
        )
        sandbox = LocalSandbox(f"local-{secret[:6]}", secret, pid, stream, lambda: self._destroy(sandbox, pid))
        self._open.add(sandbox)
        return sandbox

    async def _start_unisolated(self, tree: Path, secret: str) -> TranslatingSandbox:
        home = f"{self._scratch}/{secret}"
        await asyncio.to_thread(shutil.copytree, tree, f"{home}/work", symlinks=True)
        os.makedirs(f"{home}/tmp")
        environment = self._build_environment(home=f"{home}/tmp")
        environment |= {"TMPDIR": f"{home}/tmp", _SPOOL: f"{home}/spool"}
        argv = ["/bin/sh", "-c", BOOTSTRAP]
        pid, stream = await self._launcher.spawn(argv, layout=None, environment=environment, directory=f"{home}/work")
        client = DriverClient(_Process(pid, SocketChannel(stream)), secret)

        async def destroy() -> None:
            await self._destroy(sandbox, pid)
            await asyncio.to_thread(kill_carrying, f"{_SPOOL}={home}/spool")
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)

        name = f"local-{secret[:6]}"
        sandbox = TranslatingSandbox(name, client, destroy, self._config.working_directory, f"{home}/work")
        self._open.add(sandbox)
        try:
            await client.open()
        except (ChannelError, InfrastructureError) as error:
            self._open.discard(sandbox)
            await client.close()
            await self._launcher.kill(pid)
            raise OSError(str(error)) from error
        return sandbox

    async def _destroy(self, sandbox: Sandbox, pid: int) -> None:
        self._open.discard(sandbox)
        self._free.release()
        await self._launcher.kill(pid)

    def _build_environment(self, *, home: str) -> dict[str, str]:
        return {
            "PATH": self._config.search_path,
            "HOME": home,
            "LANG": "C.UTF-8",
            "USER": "root",
        } | build_thread_caps(self._config.cpus)


class _Process:
    """Connector to a process that has its one stream already; when that ends the sandbox is gone."""

    def __init__(self, pid: int, channel: Channel) -> None:
        self._pid = pid
        self._channel: Channel | None = channel

    async def connect(self) -> Channel:
        if self._channel is None:
            raise ChannelError("a local sandbox has one stream")
        channel, self._channel = self._channel, None
        return channel

    async def explain(self) -> InfrastructureError | None:
        return InfrastructureError(FailureReason.ERROR, f"the sandbox's first process (pid {self._pid}) has ended")
