"""Folders into and out of a sandbox, as tar files."""

import io
import secrets
import shlex
import tarfile
from pathlib import Path

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.runtime import Sandbox

TAR_TIMEOUT_SECONDS = 600.0


async def upload_folder(sandbox: Sandbox, source: Path, target: str) -> None:
    """The content of `source`, modes and links included, into the folder `target`. Raises InfrastructureError."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(source, ".")
    name = f"/tmp/sweyard-upload-{secrets.token_hex(8)}.tgz"
    await sandbox.write(name, buffer.getvalue())
    place = shlex.quote(target)
    await _demand(sandbox, f"mkdir -p {place} && tar -xzf {name} -C {place} --no-same-owner && rm {name}")


async def download_folder(sandbox: Sandbox, source: str, target: Path) -> None:
    """The content of the sandbox's folder `source` into `target`; what would lead out of it is refused.

    Raises InfrastructureError, and tarfile.FilterError for members that lead elsewhere.
    """
    name = f"/tmp/sweyard-download-{secrets.token_hex(8)}.tgz"
    await _demand(sandbox, f"tar -czf {name} -C {shlex.quote(source)} .")
    data = await sandbox.read(name)
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(target, filter="data")


async def _demand(sandbox: Sandbox, script: str) -> None:
    result = await sandbox.run(script, timeout_seconds=TAR_TIMEOUT_SECONDS)
    if result.exit_code != 0:
        raise InfrastructureError(FailureReason.ERROR, f"{script.split()[0]} failed: {result.text[-300:]}")
