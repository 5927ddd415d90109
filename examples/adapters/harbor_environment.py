"""A RolloutPool as an environment of Harbor (tried with 0.26, Python 3.12 and later).

    pip install harbor
    harbor run -p TASKS -a oracle --env examples.adapters.harbor_environment:PoolEnvironment \\
        --environment-kwarg pool=shared --environment-kwarg namespace=default

A task needs `[environment] docker_image`: a pool runs images, and builds none. Its network is the pool's own.
"""

from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.environment_type import EnvironmentType

from sweyard_sandbox.adapters.folders import download_folder, upload_folder
from sweyard_sandbox.pool.pool import Pool
from sweyard_sandbox.runtime import Sandbox

DEFAULT_SECONDS = 3_600.0


class PoolEnvironment(BaseEnvironment):  # type: ignore[misc]  # harbor needs not be installed to check this
    """One sandbox."""

    def __init__(self, *arguments: Any, pool: str, namespace: str = "default", **options: Any) -> None:
        self._pool_name, self._namespace = pool, namespace
        self._pool: Pool | None = None
        self._sandbox: Sandbox | None = None
        super().__init__(*arguments, **options)

    @staticmethod
    def type() -> EnvironmentType:
        return EnvironmentType.DOCKER

    @property
    def is_mounted(self) -> bool:
        return False

    @property
    def supports_gpus(self) -> bool:
        return False

    @property
    def can_disable_internet(self) -> bool:
        return True

    def _validate_definition(self) -> None:
        if not self.task_env_config.docker_image:
            raise FileNotFoundError("a pool builds no images: name one as [environment] docker_image in task.toml")

    async def start(self, force_build: bool) -> None:
        self._pool = await Pool.connect(namespace=self._namespace, name=self._pool_name)
        image = self.task_env_config.docker_image
        await self._pool.announce([image])
        self._sandbox = await self._pool.acquire(image, deadline_seconds=DEFAULT_SECONDS)
        # Folders for logs, which Harbor mounts in containers of its own.
        await self.ensure_dirs(self._mount_targets(writable_only=True))

    async def stop(self, delete: bool) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = self._sandbox = None

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        result = await self._opened.run(
            command,
            timeout_seconds=float(timeout_sec or DEFAULT_SECONDS),
            cwd=cwd,
            env=self._merge_env(env),
            user=None if user is None else str(user),
        )
        return ExecResult(stdout=result.text, stderr="", return_code=124 if result.timed_out else result.exit_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        source = Path(source_path)
        await self._opened.write(target_path, source.read_bytes(), mode=source.stat().st_mode & 0o777)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await upload_folder(self._opened, Path(source_dir), target_dir)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        Path(target_path).write_bytes(await self._opened.read(source_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await download_folder(self._opened, source_dir, Path(target_dir))

    @property
    def _opened(self) -> Sandbox:
        assert self._sandbox is not None, "Harbor starts an environment before it uses it"
        return self._sandbox
